"""Active time of raters, for payment, and raters who answer too fast to have read the items.

Active time is measured by the browser: seconds in which the page of an item was visible and the last input was at most 60
seconds ago (static/pace.js). A longer pause therefore adds 60 seconds and no more, and a hidden tab adds nothing. It is
never more than the time between the first display of the item and the answer by the server's clock.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from django.db.models import Count, Max, Min, Q, QuerySet, Sum

from ratings.models import InitialRating, PracticeAnswer, Rater, Rating, Study
from wetbench_site.text import format_count

TOO_FAST_SECONDS = 2  # a median below this: no item of any study can be read in that time
COLUMNS = (
    "rater", "kind", "answers", "timed_answers", "active_seconds", "active_hours", "untimed_answers", "corrections",
    "practice_answers", "first_answer_at", "last_answer_at",
)  # fmt: skip


class ActiveTime(NamedTuple):
    """The work of one rater. `seconds` are over `timed` of the `answers`; the others were given without JavaScript.

    All answers are included: repeats, surplus ones, and those of raters who withdrew. Corrections and practice answers
    are counted and not timed.
    """

    label: str
    kind: str  # person, simulated or imported
    answers: int = 0
    timed: int = 0
    seconds: float = 0.0
    corrections: int = 0
    practice: int = 0
    first_at: datetime | None = None
    last_at: datetime | None = None

    def to_row(self) -> tuple[object, ...]:
        """Return the cells of the CSV file, in the order of COLUMNS."""
        untimed = self.answers - self.timed
        return (
            self.label, self.kind, self.answers, self.timed, self.seconds, self.seconds / 3600, untimed,
            self.corrections, self.practice, self.first_at, self.last_at,
        )  # fmt: skip


def compute_active_times(study: Study, label: str = "") -> list[ActiveTime]:
    """Return the active time of every rater in order, or of the one with this label, in four queries."""
    raters = study.raters.filter(label=label) if label else study.raters.all()
    ratings = Rating.objects.filter(assignment__rater__in=raters).order_by().values_list("assignment__rater")
    # The times of imported ratings were not measured by this site.
    measured = Q(imported=False)
    sums = ratings.annotate(
        n=Count("pk"),
        n_timed=Count("pk", filter=measured & Q(active_seconds__isnull=False)),
        total=Sum("active_seconds", filter=measured),
        first=Min("submitted_at", filter=measured),
        last=Max("submitted_at", filter=measured),
    )
    by_rater = {key: values for key, *values in sums}
    initial_seconds = _sum_initial_seconds(raters)
    practice = dict(
        PracticeAnswer.objects.filter(rater__in=raters).order_by().values_list("rater").annotate(n=Count("pk"))
    )
    times = []
    for row in raters.order_by("number", "pk"):
        answers, timed, total, first, last = by_rater.get(row.pk, (0, 0, None, None, None))
        kind = "imported" if row.imported_as else "simulated" if row.simulated else "person"
        seconds = (total or 0.0) + initial_seconds.get(row.pk, 0.0)
        times.append(
            ActiveTime(
                row.label, kind, answers, timed, seconds, row.corrections, practice.get(row.pk, 0), first, last
            )
        )  # fmt: skip
    return times


def _sum_initial_seconds(raters: QuerySet[Rater]) -> Mapping[int, float]:
    """Return the active seconds before the first verdicts of the confirm layout, by the rater's key."""
    # The time of the final verdict starts again at zero; only answers that were completed are included.
    rows = InitialRating.objects.filter(assignment__rater__in=raters, assignment__rating__active_seconds__isnull=False)
    sums = rows.order_by().values_list("assignment__rater").annotate(total=Sum("active_seconds"))
    return {key: total or 0.0 for key, total in sums}


def describe_speed(median_seconds: float | None, answers: int) -> str:
    """Return why a person answers too fast to have read the items; "" if they do not."""
    if median_seconds is None or median_seconds >= TOO_FAST_SECONDS:
        return ""
    items = format_count(answers, "item")
    return f"Median time per item under {TOO_FAST_SECONDS} s: {median_seconds:.1f} s over {items}."


def format_duration(seconds: float) -> str:
    """Return hours and minutes; seconds below one minute."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
