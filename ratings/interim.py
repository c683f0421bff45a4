"""A look at rates by source before a study is unblinded: for an analyst who neither rates in it nor runs it, and logged.

Only whole tens of ratings are shown: of a source with 37 ratings the first 30, as first answered. Numbers that moved
with every rating would, beside the blinded export, tell which source each new one belongs to.
"""

from collections import defaultdict
from typing import NamedTuple

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import F

from ratings.access import role_in
from ratings.models import RatingEvent, Study
from ratings.stats.proportions import Rate, rate
from ratings.studies import log

LEAST = 10
_WHILE = ("open", "paused", "closed")


class NotAllowed(PermissionError):  # noqa: N818  # a state of the person, said to them
    """This user may not look; the message says why, for people."""


class InterimLine(NamedTuple):
    """What was said of one source, over whole tens of ratings; `rate` is None where there are fewer than ten."""

    source: str
    perturbation: str
    rate: Rate | None


def refusal(study: Study, user: User) -> str:
    """Why this user may not look; "" if they may."""
    if study.status not in _WHILE:
        return f"{study.name} is {study.status}; there is nothing to look at in the interim."
    if study.raters.filter(user=user).exists():
        return "You hold a seat in this study; raters see no results before it is unblinded."
    if study.created_by_id == user.pk or study.members.filter(user=user, role="admin").exists():
        return "You run this study; those who can change it see no results before it is unblinded."
    if role_in(user, study) not in ("analyst", "superuser"):
        return "Only an analyst of this study may take an interim look."
    return ""


@transaction.atomic
def look(study: Study, user: User) -> list[InterimLine]:
    """Rates by source, in tens, by name of the source. NotAllowed, or one more line in the study's log."""
    study = Study.objects.select_for_update().get(pk=study.pk)
    if why := refusal(study, user):
        raise NotAllowed(why)
    lines = _lines(study)
    seen = sum(line.rate is not None for line in lines)
    log(study, "looked", user, f"interim look: {seen} of {len(lines)} sources with {LEAST} ratings or more")
    return lines


def _lines(study: Study) -> list[InterimLine]:
    verdicts: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for label, perturbation, verdict in _first_answers(study):
        verdicts[label, perturbation].append(verdict)
    return [InterimLine(*source, _in_tens(said)) for source, said in sorted(verdicts.items())]


def _in_tens(said: list[bool]) -> Rate | None:
    whole = len(said) // LEAST * LEAST
    return rate(said[:whole]) if whole else None


def _first_answers(study: Study) -> list[tuple[str, str, bool]]:
    """(source, error type, verdict) in the order they came; later corrections would show which source they belong to."""
    place, source = "assignment__", "assignment__item__source__"
    counted = RatingEvent.objects.filter(
        assignment__item__study=study,
        revision=1,
        verdict__isnull=False,
        assignment__occasion=1,
        assignment__released_at__isnull=True,
        assignment__surplus=False,
        assignment__rater__dropped=False,
    )
    named = counted.annotate(label=F(f"{source}label"), wrong=F(f"{source}perturbation"), of=F(f"{place}item__code"))
    found = named.order_by("at", "of", "pk").values_list("label", "wrong", "verdict")
    return [(label, wrong, verdict is True) for label, wrong, verdict in found]
