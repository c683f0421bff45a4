"""How far a study is and who rates in it: counted by the database, and the same before and after unblinding.

Nothing here reads where an item came from; what was said of which source is in `analyses`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ratings.models import Rater, Study
from ratings.studies.progress import tallies
from ratings.studies.progress.tallies import Seat, Tallies


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


def study_report(study: Study, counted: Tallies | None = None) -> StudyReport:
    """The progress of a study, in a constant number of queries. Who has counted already hands that over."""
    seen = counted or tallies.of(study)
    raters = tuple(_rater(seat, seen.seats.get(seat.pk)) for seat in study.raters.order_by("number", "pk"))
    return StudyReport(
        progress=StudyProgress(
            done=seen.study.given,
            total=seen.study.given + seen.study.missing,
            items=seen.study.items,
            raters=len(raters),
            raters_done=sum(line.done == line.total for line in raters),
            missing=seen.study.missing,
        ),
        raters=raters,
        simulated=_who_is_simulated(raters),
        imported=_what_is_imported(seen.study.imported, seen.study.given),
        cannot_judge=seen.study.cannot_judge,
        surplus=seen.study.surplus,
    )


def _rater(seat: Rater, counted: Seat | None) -> RaterLine:
    return RaterLine(
        label=seat.label,
        simulated=seat.simulated,
        invited=seat.invited_at is not None,
        started=seat.started_at is not None,
        done=counted.rated if counted else 0,
        total=counted.dealt if counted else 0,
        median_seconds=counted.median_seconds if counted and not seat.dropped else None,
        imported_as=seat.imported_as,
        withdrawn=seat.withdrawn_at is not None,
        dropped=seat.dropped,
    )


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
