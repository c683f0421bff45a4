"""Sentences of a study's log, as its page shows them."""

from ratings.models import Study
from ratings.results import study_log


def words(study: Study, kind: str) -> list[str]:
    """Return the details of the events of this kind, oldest first."""
    return [line.words for line in study_log.describe_events(study.events.filter(kind=kind).order_by("pk"))]


def word(study: Study, kind: str) -> str:
    """Return the details of the only event of this kind."""
    [only] = words(study, kind)
    return only
