"""Metrics of ratings for /metrics."""

from collections.abc import Iterator

from django.db.models import Max

from ratings.models import Rating, RatingEvent
from wetbench_site.observability.registry import Gauge, build_single_gauge, cache_for_one_minute


def read_rating_gauges() -> Iterator[Gauge]:
    """Yield the number of current ratings and of saved versions of ratings."""
    number = cache_for_one_minute("ratings", Rating.objects.count)
    yield build_single_gauge("wetbench_ratings", "Current ratings.", number)
    # The highest key instead of a count: an index finds it at once, while a count reads the whole table.
    versions = RatingEvent.objects.aggregate(n=Max("pk"))["n"]
    yield build_single_gauge("wetbench_rating_versions", "Versions of ratings that were saved.", versions)
