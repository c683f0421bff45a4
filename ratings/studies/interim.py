"""A look at rates by source before a study is unblinded: for an analyst who neither rates in it nor ran it, and logged.

What is shown is a snapshot of the whole study as it stood when a quarter of the planned ratings was reached. Numbers
that moved with single ratings would, beside the blinded export, tell which source each new one belongs to.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from django.contrib.auth.models import User
from django.db import transaction

from ratings.models import ItemSource, RatingEvent, Study
from ratings.models.study_events import InterimLook, Opened
from ratings.studies import designs, former
from ratings.studies.access import role_in
from ratings.studies.lifecycle import log

if TYPE_CHECKING:
    from ratings.stats.proportions import Rate

LEAST = 10
QUARTERS = 4
_WHILE = ("open", "paused", "closed")
Source = tuple[str, str]  # label and error type


class NotAllowed(PermissionError):  # noqa: N818  # a state of the person, said to them
    """This user may not look; the message says why, for people."""


class InterimLine(NamedTuple):
    """What was said of one source in the snapshot; `rate` is None where there are too few ratings to show."""

    source: str
    perturbation: str
    rate: "Rate | None"


class Look(NamedTuple):
    """The lines as they stood at so many of `planned` ratings; `ratings` is 0 before there is a snapshot to show."""

    ratings: int
    planned: int
    lines: list[InterimLine]


class _First(NamedTuple):
    """A rating as first submitted. `gone` is when it ceased to count: its rater was dropped, or its place taken back."""

    key: int
    at: datetime
    gone: datetime | None
    source: Source
    verdict: bool | None


Shown = dict[Source, list[_First]]


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
    if former.ran(study, user):
        return "You have run this study; those who could change it see no results before it is unblinded."
    return ""


@transaction.atomic
def look(study: Study, user: User) -> Look:
    """Rates by source at the last quarter that was reached. NotAllowed, or one more line in the study's log."""
    study = Study.objects.select_for_update().get(pk=study.pk)
    if why := refusal(study, user):
        raise NotAllowed(why)
    found = _look(study)
    seen = sum(line.rate is not None for line in found.lines)
    content = InterimLook(ratings=found.ratings, planned=found.planned, shown=seen, sources=len(found.lines))
    log(study, content, user)
    return found


def _look(study: Study) -> Look:
    planned, firsts = _planned(study), _firsts(study)
    sizes = [-(-planned * quarter // QUARTERS) for quarter in range(1, QUARTERS + 1)]
    looks = [(0, Shown()), *zip(sizes, _told(_snapshots(firsts, sizes)), strict=False)]
    # What holds a rating that was taken back since is shown no more: the look before it is.
    size, shown = next((n, of) for n, of in reversed(looks) if not any(one.gone for own in of.values() for one in own))
    sources = ItemSource.objects.filter(item__study=study).values_list("label", "perturbation")
    # Every source has its line from the start: one that came with its first rating would tell whose that was.
    lines = [InterimLine(*source, _rate(shown.get(source, []))) for source in sorted(set(sources))]
    return Look(size, planned, lines)


def _planned(study: Study) -> int:
    """Ratings the study set out to collect when it opened; items and seats that came later move no snapshot."""
    opened = study.events.filter(kind=Opened.kind).first()
    if opened and isinstance(content := opened.content, Opened):
        items, seats = content.items, content.raters
    else:
        items, seats = study.items.count(), study.ratings_per_item
    ratings = items * (seats if designs.is_crossed(study) else study.ratings_per_item)
    protocol = designs.protocol_of(study)
    return min(ratings, protocol.stop_ratings or ratings) if protocol.stop == "ratings" else ratings


def _snapshots(firsts: Sequence[_First], sizes: Sequence[int]) -> Iterator[list[_First]]:
    """For each size that was reached, the ratings that counted at that moment. What happens later changes none."""
    gone = sorted(one.gone for one in firsts if one.gone)
    reached = 0
    for number, last in enumerate(firsts, 1):
        while reached < len(sizes) and number - bisect_right(gone, last.at) >= sizes[reached] > 0:
            reached += 1
            yield [one for one in firsts[:number] if one.gone is None or one.gone > last.at]


def _told(snapshots: Iterator[list[_First]]) -> Iterator[Shown]:
    """What each look shows: a source's line moves on only by ten ratings or more that came or went."""
    shown: Shown = {}
    for snapshot in snapshots:
        by_source: Shown = defaultdict(list)
        for one in snapshot:
            if one.verdict is not None:
                by_source[one.source].append(one)
        moved = {
            s: own for s, own in by_source.items() if len(own) >= LEAST and _differ(own, shown.get(s, [])) >= LEAST
        }
        shown = {**shown, **moved}
        yield shown


def _differ(one: Collection[_First], other: Collection[_First]) -> int:
    return len({first.key for first in one} ^ {first.key for first in other})


def _rate(own: Sequence[_First]) -> "Rate | None":
    from ratings.stats.proportions import rate  # scipy comes with it, and few pages have a rate

    return rate([one.verdict is True for one in own]) if own else None


def _firsts(study: Study) -> list[_First]:
    """Ratings that count or did, in the order they came: answers are logged under the study's lock, so by their key.

    As first submitted: a correction would show which source it belongs to. Imported ones come on top of the plan.
    """
    place, source = "assignment__", "assignment__item__source__"
    counted = RatingEvent.objects.filter(
        assignment__item__study=study, kind="answer", revision=1, assignment__occasion=1, assignment__surplus=False
    )
    found = counted.order_by("pk").values_list(
        "pk", "at", f"{place}released_at", f"{place}rater__dropped", f"{place}rater__withdrawn_at", f"{source}label",
        f"{source}perturbation", "verdict",
    )  # fmt: skip
    firsts = []
    for key, at, released, dropped, withdrawn, label, wrong, verdict in found:
        gone = min((when for when in (released, withdrawn if dropped else None) if when), default=None)
        if gone is None or gone > at:
            firsts.append(_First(key, at, gone, (label, wrong), verdict))
    return firsts
