"""How long raters take for an item: the median of each, found by the database."""

from collections import defaultdict
from collections.abc import Mapping
from statistics import mean

from django.db.models import Case, Count, F, QuerySet, Value, When, Window
from django.db.models.functions import Coalesce, RowNumber

from ratings.models import Rating

_RATER = "assignment__rater"
_BY_CLOCK = Case(When(imported=True, seconds=0, then=Value(None)), default=F("seconds"))


def medians(ratings: QuerySet[Rating]) -> Mapping[int, float]:
    """Seconds an item by rater: active ones as the browser counted them, else by the clock; of imported ones only known ones.

    Of n times in order, those at places p with n <= 2p <= n + 2: both middle ones of an even n, the one of an odd n.
    """
    timed = ratings.order_by().annotate(timed=Coalesce("active_seconds", _BY_CLOCK)).filter(timed__isnull=False)
    placed = timed.annotate(
        twice=2 * Window(RowNumber(), partition_by=F(_RATER), order_by="timed"),
        of=Window(Count("pk"), partition_by=F(_RATER)),
    )
    middle: dict[int, list[float]] = defaultdict(list)
    for key, seconds in placed.filter(twice__gte=F("of"), twice__lte=F("of") + 2).values_list(_RATER, "timed"):
        middle[key].append(seconds)
    return {key: mean(times) for key, times in middle.items()}
