"""Sentences of a study's log, as its page shows them."""

from ratings.models import Study
from ratings.results import study_log


def list_event_texts(study: Study, kind: str) -> list[str]:
    """Return the details of the events of this kind, oldest first."""
    return [line.description for line in study_log.describe_events(study.events.filter(kind=kind).order_by("pk"))]


def get_event_text(study: Study, kind: str) -> str:
    """Return the details of the only event of this kind."""
    [only] = list_event_texts(study, kind)
    return only
