"""Every check there is, in the order in which they are made."""

from ratings.verifying import answers, assignments, documents, items, studies
from simulation.verifying import calls, databases, episodes, files, steps, twins, work
from simulation.verifying.form import Check

CHECKS: tuple[Check, ...] = (
    *databases.CHECKS, *answers.CHECKS, *assignments.CHECKS, *items.CHECKS, *studies.CHECKS, *documents.CHECKS,
    *episodes.CHECKS, *steps.CHECKS, *twins.CHECKS, *work.CHECKS, *calls.CHECKS, *files.CHECKS,
)  # fmt: skip
