"""Run the checker on stored transitions and twins: those not checked yet, or all of them."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeVar

from django.db.models import QuerySet

from simulation.lab.bench import step_from_json
from simulation.lab.errors import LabError
from simulation.lab.outcomes import Outcome, Perturbation
from simulation.models import Transition, Twin
from simulation.runs import checking

log = logging.getLogger("wetbench.checking")
Row = TypeVar("Row", Transition, Twin)
Judge = Callable[[Row], dict[str, Any] | None]
BATCH = 100
ORIGINAL = "original"
KINDS = (ORIGINAL, Perturbation.OBVIOUS.value, Perturbation.SUBTLE.value)
VERDICTS = ("ok", "undecidable", "error")


@dataclass
class Tally:
    """Verdicts by kind of row, and for each code the number of rows with that error by kind of row."""

    verdicts: Counter[tuple[str, str]] = field(default_factory=Counter)
    codes: Counter[tuple[str, str]] = field(default_factory=Counter)
    failed: int = 0

    def add(self, kind: str, report: dict[str, Any] | None) -> None:
        if report is None:
            self.failed += 1
            return
        self.verdicts[report["verdict"], kind] += 1
        error_codes = {finding["code"] for finding in report["findings"] if finding["severity"] == "error"}
        self.codes.update((code, kind) for code in error_codes)

    @property
    def rows_met(self) -> int:
        return self.verdicts.total() + self.failed

    def rows(self) -> list[tuple[str, list[int]]]:
        """Return (verdict or code, rows of each kind). Codes are listed only if one was found."""
        codes = sorted({code for code, _ in self.codes})
        return [
            *((verdict, [self.verdicts[verdict, kind] for kind in KINDS]) for verdict in VERDICTS),
            *((code, [self.codes[code, kind] for kind in KINDS]) for code in codes),
        ]


def check(again: bool, checked: Callable[[int], None]) -> Tally:
    """Check rows without findings, or all rows with `recheck_all`, and store the findings. `checked` is called with the number done."""
    tally, done = Tally(), 0
    originals, twins = Transition.objects.all(), Twin.objects.filter(status="done").select_related("transition")
    for number in chain(_batches(originals, again, _original, tally), _batches(twins, again, _twin, tally)):
        done += number
        checked(done)
    return tally


def _original(row: Transition) -> dict[str, Any] | None:
    return checking.findings(step_from_json(row.step))


def _twin(row: Twin) -> dict[str, Any] | None:
    return checking.findings(step_from_json(row.transition.step), Outcome.from_json(row.outcome or {}))


def _batches(found: QuerySet[Row], again: bool, judge: Judge[Row], tally: Tally) -> Iterator[int]:
    """Store findings batch by batch, and yield the size of each batch."""
    due = found if again else found.filter(findings__isnull=True)
    # Load all keys first: a query that is read while its rows are updated may return a row twice.
    # Batches, so that an interrupted command keeps its work.
    primary_keys = list(due.order_by("pk").values_list("pk", flat=True).iterator())
    for start in range(0, len(primary_keys), BATCH):
        rows = list(found.filter(pk__in=primary_keys[start : start + BATCH]))
        for row in rows:
            report = _judged(row, judge)
            tally.add(getattr(row, "perturbation", ORIGINAL), report)
            row.findings = report if report is not None else row.findings
        found.model._default_manager.bulk_update(rows, ["findings"])
        yield len(rows)


def _judged(row: Row, judge: Judge[Row]) -> dict[str, Any] | None:
    """Return the report, or None after logging an exception if the stored row cannot be parsed."""
    try:
        return judge(row)
    except (LabError, LookupError, TypeError, ValueError, AttributeError):
        log.exception("%s %s cannot be checked", type(row).__name__, row.pk)
        return None
