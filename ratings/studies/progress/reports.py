"""The progress of a study and of its raters, counted by the database. It is the same before and after unblinding.

Nothing here reads where an item came from; results by source are in `ratings.results.analyses`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ratings.models import Rater, Study
from ratings.studies.progress import study_counts
from ratings.studies.progress.study_counts import RaterCounts, StudyCounts


class StudyProgress(NamedTuple):
    """Ratings collected and planned on the first occasion, items, and raters who have rated all their items.

    `missing`: ratings that items lack. An item with more ratings than planned does not compensate for one with too
    few.
    """

    done: int
    total: int
    items: int
    raters: int
    raters_done: int
    missing: int = 0


@dataclass(frozen=True)
class RaterProgress:
    """The progress of one rater, including repeats. `median_seconds` is None before the first rating."""

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
    raters: tuple[RaterProgress, ...]
    simulated: str  # which of the raters are simulated, in a sentence; "" if none
    imported: str = ""  # how many ratings were collected elsewhere, in a sentence; "" if none
    cannot_judge: int = 0
    surplus: int = 0

    @property
    def by_simulated(self) -> int:
        """Return how many ratings simulated raters gave, including repeats."""
        return sum(line.done for line in self.raters if line.simulated)


def build_report(study: Study, counted: StudyCounts | None = None) -> StudyReport:
    """Return the progress of a study, in a constant number of queries. `counted` avoids counting again in callers
    that have already counted.
    """
    counts = counted or study_counts.count_study(study)
    raters = tuple(
        _build_rater_line(rater, counts.raters.get(rater.pk)) for rater in study.raters.order_by("number", "pk")
    )
    return StudyReport(
        progress=StudyProgress(
            done=counts.study.given,
            total=counts.study.given + counts.study.missing,
            items=counts.study.items,
            raters=len(raters),
            raters_done=sum(line.done == line.total for line in raters),
            missing=counts.study.missing,
        ),
        raters=raters,
        simulated=_describe_simulated(raters),
        imported=_describe_imported(counts.study.imported, counts.study.given),
        cannot_judge=counts.study.cannot_judge,
        surplus=counts.study.surplus,
    )


def _build_rater_line(rater: Rater, counted: RaterCounts | None) -> RaterProgress:
    return RaterProgress(
        label=rater.label,
        simulated=rater.simulated,
        invited=rater.invited_at is not None,
        started=rater.started_at is not None,
        done=counted.rated if counted else 0,
        total=counted.dealt if counted else 0,
        # A dropped rater's times would suggest that their ratings count.
        median_seconds=counted.median_seconds if counted and not rater.dropped else None,
        imported_as=rater.imported_as,
        withdrawn=rater.withdrawn_at is not None,
        dropped=rater.dropped,
    )


def _describe_simulated(raters: Sequence[RaterProgress]) -> str:
    # Dropped raters are not in the results that this sentence is about.
    raters = [line for line in raters if not line.dropped]
    simulated = [line for line in raters if line.simulated]
    if not simulated:
        return ""
    if len(simulated) == len(raters):
        return f"All {len(raters)} raters are simulated."
    n_simulated = sum(line.done for line in simulated)
    n_ratings = sum(line.done for line in raters)
    return (
        f"{len(simulated)} of {len(raters)} raters are simulated; they gave {n_simulated:,} of {n_ratings:,} ratings."
    )


def _describe_imported(imported: int, given: int) -> str:
    return f"{imported} of {given} ratings were collected elsewhere and imported." if imported else ""
