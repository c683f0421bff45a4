"""Run the checker on steps: when they are made, and later on stored transitions and twins."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from django.db.models import QuerySet

from simulation import checker
from simulation.lab.bench import Step, step_from_json
from simulation.lab.errors import LabError
from simulation.lab.outcomes import Outcome, Perturbation
from simulation.models import Transition, Twin

log = logging.getLogger("wetbench.checking")
Row = TypeVar("Row", Transition, Twin)
BATCH_SIZE = 100
ORIGINAL = "original"
ROW_KINDS = (ORIGINAL, Perturbation.OBVIOUS.value, Perturbation.SUBTLE.value)
VERDICTS = ("ok", "undecidable", "error")


def compute_findings(step: Step, outcome: Outcome | None = None) -> dict[str, Any] | None:
    """Return the report on a step, or on another outcome of the same action. Return None if the checker failed."""
    try:
        return checker.check_transition(build_checker_line(step, outcome or step.outcome)).to_json()
    except Exception:  # a bug in the checker must not lose a step that may have been paid for
        log.exception("the checker failed on step %s, %s", step.number, step.action.name)
        return None


def build_checker_line(step: Step, outcome: Outcome) -> dict[str, Any]:
    """Return the step as a line of `check_transitions`: only what everybody may see, without the ledger."""
    materials = [draft.to_json() for draft in outcome.new_materials]
    return {
        "input_materials": [material.to_visible() for material in step.inputs],
        "action": step.action.to_json(),
        "outcome": {
            "new_materials": [{key: value for key, value in m.items() if key != "ledger"} for m in materials],
            "new_observations": [observation.to_json() for observation in outcome.new_observations],
            "success": outcome.success,
            "failure_reason": outcome.failure_reason,
        },
    }


@dataclass
class CheckTally:
    """The number of rows by verdict and kind of row, and by error code and kind of row."""

    verdicts: Counter[tuple[str, str]] = field(default_factory=Counter)
    codes: Counter[tuple[str, str]] = field(default_factory=Counter)
    failed: int = 0

    def count_report(self, kind: str, report: dict[str, Any] | None) -> None:
        if report is None:
            self.failed += 1
            return
        self.verdicts[report["verdict"], kind] += 1
        error_codes = {finding["code"] for finding in report["findings"] if finding["severity"] == "error"}
        self.codes.update((code, kind) for code in error_codes)

    @property
    def rows_checked(self) -> int:
        return self.verdicts.total() + self.failed

    def list_table_rows(self) -> list[tuple[str, list[int]]]:
        """Return (verdict or code, rows of each kind). Codes are listed only if one was found."""
        rows = [(verdict, self.verdicts) for verdict in VERDICTS]
        rows += [(code, self.codes) for code in sorted({code for code, _ in self.codes})]
        return [(name, [counter[name, kind] for kind in ROW_KINDS]) for name, counter in rows]


def check_stored(recheck_all: bool, on_progress: Callable[[int], None]) -> CheckTally:
    """Check rows without findings, or all rows with `recheck_all`, and store the findings.

    `on_progress` is called with the number of rows done.
    """
    tally, done = CheckTally(), 0
    originals, twins = Transition.objects.all(), Twin.objects.filter(status="done").select_related("transition")
    for queryset in (originals, twins):
        for number in _check_in_batches(queryset, recheck_all, tally):
            done += number
            on_progress(done)
    return tally


def _check_in_batches(queryset: QuerySet[Row], recheck_all: bool, tally: CheckTally) -> Iterator[int]:
    """Store findings batch by batch, and yield the size of each batch."""
    due = queryset if recheck_all else queryset.filter(findings__isnull=True)
    # Load all keys first: a query that is read while its rows are updated may return a row twice.
    # Batches, so that an interrupted command keeps its work.
    primary_keys = list(due.order_by("pk").values_list("pk", flat=True).iterator())
    for start in range(0, len(primary_keys), BATCH_SIZE):
        rows = list(queryset.filter(pk__in=primary_keys[start : start + BATCH_SIZE]))
        for row in rows:
            report = None
            try:
                original = row if isinstance(row, Transition) else row.transition
                outcome = None if isinstance(row, Transition) else Outcome.from_json(row.outcome or {})
                report = compute_findings(step_from_json(original.step), outcome)
            except (LabError, LookupError, TypeError, ValueError, AttributeError):
                log.exception("%s %s cannot be checked", type(row).__name__, row.pk)
            tally.count_report(getattr(row, "perturbation", ORIGINAL), report)
            row.findings = report if report is not None else row.findings
        queryset.model._default_manager.bulk_update(rows, ["findings"])
        yield len(rows)
