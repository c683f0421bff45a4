"""Run the extracted bodies in a clean checkout, and return the values that can be compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from simulation.replication.comparing import find_value_problem
from simulation.replication.grading.extracting import Extraction, GradingStopped, build_checkout
from simulation.replication.grading.work import GradingWork
from simulation.replication.sandbox.base import Sandbox
from simulation.replication.tasks.running import BAD_REPLY, NO_REPLY, CaseReport, run_cases
from simulation.replication.values import CaseValues, MetricValue

MAX_METRICS = 200  # of a test case; further ones are ignored


@dataclass(frozen=True)
class Measurement:
    """What the test cases returned with an agent's bodies, on one or more variants.

    `values` has the valid values by variant and test case; `errors` has the reason for each test case that returned none.
    `tampered` are signs that the code wrote results by itself. `killed` is what stopped the sandbox, one of STOPPED_BY.
    """

    values: Mapping[int, Mapping[str, CaseValues]] = field(default_factory=dict)
    errors: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    tampered: tuple[str, ...] = ()
    killed: str = ""
    seconds: float = 0.0
    resident_mib: int = 0

    @property
    def is_usable(self) -> bool:
        """Whether every test case returned values on every variant, and nothing was tampered with."""
        return not self.tampered and not any(self.errors.values())

    def describe_errors(self) -> list[str]:
        """Return "e1: ZeroDivisionError: division by zero" for each test case that returned nothing, without numbers of variants."""
        return sorted({f"{case}: {error}" for errors in self.errors.values() for case, error in errors.items()})

    def to_json(self) -> dict[str, Any]:
        return {
            "values": {
                str(variant): {case: dict(metrics) for case, metrics in cases.items()}
                for variant, cases in self.values.items()
            },
            "errors": {str(variant): dict(errors) for variant, errors in self.errors.items()},
            "tampered": list(self.tampered),
            "killed": self.killed,
            "seconds": self.seconds,
            "resident_mib": self.resident_mib,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Measurement":
        return cls(
            values={int(variant): cases for variant, cases in data["values"].items()},
            errors={int(variant): errors for variant, errors in data["errors"].items()},
            tampered=tuple(data["tampered"]),
            killed=data["killed"],
            seconds=data["seconds"],
            resident_mib=data["resident_mib"],
        )


def measure(work: GradingWork, extraction: Extraction, variants: Sequence[int], sandbox: Sandbox) -> Measurement:
    """Run the relevant test cases on variants, in one sandbox: the reference code with the extracted bodies.

    A run that was stopped by the clock is repeated once, because the machine may have been busy. Raises SandboxFault and GradingStopped.
    """
    code = build_checkout(work.task, work.function_ids, extraction)
    data = {number: work.data[number] for number in variants}
    cases = [case.id for case in work.relevant_cases]
    for _ in range(2):
        report = run_cases(work.task, code, data, sandbox, work.profile, cases)
        if report.killed == "stop":
            raise GradingStopped("stopped while test cases ran")
        if not _ran_out_of_time(report):
            break
    return read_report(report)


def _ran_out_of_time(report: CaseReport) -> bool:
    return report.killed == "wall" or any(
        outcome.error == NO_REPLY and outcome.text.startswith("stopped after") for outcome in report.outcomes
    )


def read_report(report: CaseReport) -> Measurement:
    """Return the values of a report that can be compared. The report is hostile."""
    values: dict[int, dict[str, CaseValues]] = {}
    errors: dict[int, dict[str, str]] = {}
    tampered = list(report.tampered)
    for outcome in report.outcomes:
        values.setdefault(outcome.variant, {})
        errors.setdefault(outcome.variant, {})
        if outcome.values is not None:
            usable: dict[str, MetricValue] = {
                name: value
                for name, value in list(outcome.values.items())[:MAX_METRICS]
                if not find_value_problem(value)
            }
            values[outcome.variant][outcome.case] = usable
        else:
            text = f"{outcome.error}: {outcome.text}".rstrip(": ")
            errors[outcome.variant][outcome.case] = text
            if outcome.error == BAD_REPLY:
                # The driver writes only well-formed replies, so the code that it ran wrote or changed this one.
                tampered.append(f"{outcome.case}: {outcome.text}")
    return Measurement(
        values, errors, tuple(tampered[:20]), report.killed, round(report.seconds, 3), report.resident_mib
    )
