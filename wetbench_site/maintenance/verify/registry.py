"""All checks, in the order in which they run."""

from wetbench_site.maintenance.verify.checks import Check
from wetbench_site.maintenance.verify.ratings import answers, assignments, documents, items, studies
from wetbench_site.maintenance.verify.simulation import calls, databases, episodes, files, steps, twins, work

ALL_CHECKS: tuple[Check, ...] = (
    # The database itself first: with a broken schema the other findings mislead.
    *databases.CHECKS, *answers.CHECKS, *assignments.CHECKS, *items.CHECKS, *studies.CHECKS, *documents.CHECKS,
    *episodes.CHECKS, *steps.CHECKS, *twins.CHECKS, *work.CHECKS, *calls.CHECKS, *files.CHECKS,
)  # fmt: skip
