"""How far a study is and who rates in it: counted by the database, and the same before and after unblinding.

Nothing here reads where an item came from; what was said of which source is in `analyses`.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any, NamedTuple

from django.db.models import Case, Count, F, Q, QuerySet, Value, When, Window
from django.db.models.functions import Coalesce, RowNumber

from ratings import stopping
from ratings.models import Rating, Study
from ratings.models.answers import FIRST

_PLACE = "assignment__"
_COUNTS = Q(assignment__occasion=FIRST, assignment__released_at__isnull=True, assignment__surplus=False)


class StudyProgress(NamedTuple):
    """Ratings given and wanted on the first occasion, items, and raters who have done all they have.

    `missing`: what items lack. An item with more ratings than it wants makes up for none that has too few.
    """

    done: int
    total: int
    items: int
    raters: int
    raters_done: int
    missing: int = 0


@dataclass(frozen=True)
class RaterLine:
    """How far one rater is, repeats included. `median_seconds` is None before the first rating."""

    label: str
    simulated: bool
    invited: bool
    started: bool
    done: int
    total: int
    median_seconds: float | None
    imported_as: str = ""
    withdrawn: bool = False
    dropped: bool = False


@dataclass(frozen=True)
class StudyReport:
    """What a study's page shows in any state. Nothing in it depends on where an item came from, or on a verdict."""

    progress: StudyProgress
    raters: tuple[RaterLine, ...]
    simulated: str  # who of the raters is simulated, in a sentence; "" if nobody
    imported: str = ""  # how many ratings were collected elsewhere, in a sentence; "" if none
    cannot_judge: int = 0
    surplus: int = 0

    @property
    def by_simulated(self) -> int:
        """Ratings that simulated raters gave, repeats included."""
        return sum(line.done for line in self.raters if line.simulated)


def study_report(study: Study) -> StudyReport:
    """The progress of a study, in a constant number of queries."""
    counted = _ratings(study).aggregate(
        given=Count("pk", filter=_COUNTS),
        imported=Count("pk", filter=_COUNTS & Q(imported=True)),
        cannot_judge=Count("pk", filter=_COUNTS & Q(cannot_judge=True)),
        surplus=Count("pk", filter=Q(assignment__surplus=True)),
    )
    raters, missing, given = _raters(study), stopping.still_wanted(study), counted["given"]
    return StudyReport(
        progress=StudyProgress(
            done=given,
            total=given + missing,
            items=study.items.count(),
            raters=len(raters),
            raters_done=sum(line.done == line.total for line in raters),
            missing=missing,
        ),
        raters=raters,
        simulated=_who_is_simulated(raters),
        imported=_what_is_imported(counted["imported"], given),
        cannot_judge=counted["cannot_judge"],
        surplus=counted["surplus"],
    )


def _ratings(study: Study) -> QuerySet[Rating]:
    """All but those of dropped raters, which show nowhere."""
    return Rating.objects.filter(assignment__item__study=study, assignment__rater__dropped=False)


def _raters(study: Study) -> tuple[RaterLine, ...]:
    given, medians = Q(assignments__rating__isnull=False), _medians(study)
    seats = study.raters.annotate(
        done=Count("assignments", filter=given),
        total=Count("assignments", filter=given | Q(assignments__released_at__isnull=True)),
    )
    return tuple(_rater(seat, medians.get(seat.pk)) for seat in seats.order_by("number", "pk"))


def _rater(seat: Any, median_seconds: float | None) -> RaterLine:
    return RaterLine(
        label=seat.label,
        simulated=seat.simulated,
        invited=seat.invited_at is not None,
        started=seat.started_at is not None,
        done=seat.done,
        total=seat.total,
        median_seconds=median_seconds,
        imported_as=seat.imported_as,
        withdrawn=seat.withdrawn_at is not None,
        dropped=seat.dropped,
    )


def _medians(study: Study) -> Mapping[int, float]:
    """Median seconds an item by rater: the one or two in the middle of each rater's times, found by the database.

    Of n times in order, those at places p with n <= 2p <= n + 2: both middle ones of an even n, the one of an odd n.
    """
    rater = F(f"{_PLACE}rater")
    by_clock = Case(When(imported=True, seconds=0, then=Value(None)), default=F("seconds"))
    timed = _ratings(study).annotate(timed=Coalesce("active_seconds", by_clock)).filter(timed__isnull=False)
    placed = timed.annotate(
        twice=2 * Window(RowNumber(), partition_by=rater, order_by="timed"),
        of=Window(Count("pk"), partition_by=rater),
    )
    middle: dict[int, list[float]] = defaultdict(list)
    for key, seconds in placed.filter(twice__gte=F("of"), twice__lte=F("of") + 2).values_list(
        f"{_PLACE}rater", "timed"
    ):
        middle[key].append(seconds)
    return {key: mean(times) for key, times in middle.items()}


def _who_is_simulated(raters: Sequence[RaterLine]) -> str:
    raters = [line for line in raters if not line.dropped]
    simulated = [line for line in raters if line.simulated]
    if not simulated:
        return ""
    if len(simulated) == len(raters):
        return f"All {len(raters)} raters are simulated."
    given = sum(line.done for line in simulated)
    every = sum(line.done for line in raters)
    return f"{len(simulated)} of {len(raters)} raters are simulated; they gave {given:,} of {every:,} ratings."


def _what_is_imported(imported: int, given: int) -> str:
    return f"{imported} of {given} ratings were collected elsewhere and imported." if imported else ""
