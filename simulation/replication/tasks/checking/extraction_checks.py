"""Rules on the reference code as grading sees it: every body can be extracted, and the screen finds nothing."""

from simulation.replication.grading.extracting import extract_patch
from simulation.replication.sandbox.base import Sandbox
from simulation.replication.tasks.checking.function_checks import place_function
from simulation.replication.tasks.checking.proofs import Fault
from simulation.replication.values import Task


def extract_reference(task: Task, sandbox: Sandbox) -> tuple[dict[str, str], list[Fault]]:
    """Return the reference bodies by id as grading would extract them from a workspace without mistakes, and the faults.

    A body that is not extracted, or that the screen of forbidden names refuses, could never be graded as solved.
    Raises SandboxFault.
    """
    ids = [function.id for function in task.functions]
    files = {path: text.encode() for path, text in task.code.items()}
    extraction = extract_patch(task, ids, files, sandbox)
    faults = [
        Fault(
            "masks",
            place_function(task, identifier),
            f"grading cannot extract it: {entry.status} {entry.reason}".strip(),
        )
        for identifier, entry in extraction.functions.items()
        if entry.status != "filled"
    ]
    faults += [
        Fault(
            "masks",
            f"{finding.path}: {finding.where}",
            f"the screen of grading finds the {finding.kind} {finding.what}",
        )
        for finding in extraction.findings
        if task.screen == "refuse"
    ]
    return {identifier: entry.body for identifier, entry in extraction.functions.items()}, faults
