"""The numbers of the ratings in /metrics."""

from collections.abc import Iterator

from django.db.models import Max

from ratings.models import Rating, RatingEvent
from wetbench_site.observability.gauges import Gauge, cache_for_a_minute, single_gauge


def read_rating_gauges() -> Iterator[Gauge]:
    """Yield the ratings in force, and the versions of ratings that were saved.

    The highest key is used as the number of versions: an index finds it at once, while a count reads the whole table.
    """
    yield single_gauge("wetbench_ratings", "Ratings that stand.", cache_for_a_minute("ratings", Rating.objects.count))
    versions = RatingEvent.objects.aggregate(n=Max("pk"))["n"]
    yield single_gauge("wetbench_rating_versions", "Versions of ratings that were saved.", versions)
