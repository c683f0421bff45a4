"""Twins that a model made: a person says where the planted error stands. Until then nobody knows."""

from django.contrib.auth.models import User
from django.utils import timezone

from simulation.lab.errors import LabError
from simulation.models import Twin


class NoSuchPlaceError(LabError):
    """The twin differs at no such place; the message names those at which it does."""


def vet(twin: Twin, field: str, by: User) -> None:
    """Store where the error stands: one of the places of its diff, or "" for more than one or none that can be named."""
    places = [str(difference["path"]) for difference in twin.diff]
    if field and field not in places:
        raise NoSuchPlaceError(
            f"The error stands at {field!r}; this twin differs at: {', '.join(places) or 'no place'}"
        )
    Twin.objects.filter(pk=twin.pk, status="done").update(field=field, vetted_by=by, vetted_at=timezone.now())
