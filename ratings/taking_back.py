"""Take back from raters what they can read elsewhere and have not been shown, and give it to others.

It is done whenever somebody gains the right to read: a seat is taken, a study is unblinded, a role is given in an unblinded
study, a closed study is opened again. What a rater was shown stays theirs; the blinding audit then says so.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from ratings import claiming, designs, readable_elsewhere, redealing
from ratings.models import Assignment, Rater, Study, StudyEvent
from ratings.models.answers import FIRST
from ratings.stats.nouns import counted


class TakenBack(NamedTuple):
    """How many items were taken back from whom, and how many of those ratings nobody else may give."""

    by_label: dict[str, int]
    left: int


NOTHING = TakenBack({}, 0)


@transaction.atomic
def take_back_readable(study: Study, seats: Iterable[Rater] | None = None) -> TakenBack:
    """Take from these seats, or from all, each item that its holder can read elsewhere and was not shown. Log it.

    Planned designs give the ratings to other raters, who may give something in exchange. Ratings that nobody may give
    wait for another seat. Nothing is done in a study that takes no ratings.
    """
    study = claiming.lock(study.pk)
    if study.status not in ("open", "paused"):
        return NOTHING
    live = study.raters.filter(user__isnull=False, withdrawn_at__isnull=True, finished_at__isnull=True)
    chosen = list(live if seats is None else live.filter(pk__in=[seat.pk for seat in seats]))
    readable = readable_elsewhere.find_readable(study, chosen)
    rows = [row for seat in chosen if seat.pk in readable for row in _list_unshown(study, seat, readable[seat.pk])]
    if not rows:
        return NOTHING
    labels = {seat.pk: seat.label for seat in chosen}
    items = {(labels[row.rater_id], row.item_id) for row in rows}
    by_label = {label: len([1 for one, _ in items if one == label]) for label in sorted({one for one, _ in items})}
    moved = _give_up(study, chosen, rows)
    taken = TakenBack(by_label, moved)
    for label, count in by_label.items():
        StudyEvent.objects.create(study=study, kind="taken back", detail=_describe(label, count))
    if taken.left:
        told = f"{counted(taken.left, 'place')} left until another seat is added"
        StudyEvent.objects.create(study=study, kind="taken back", detail=told)
    return taken


def take_back_beside(unblinded: Study) -> None:
    """Do so in every running study that holds versions of what can be read in this one now."""
    for study in readable_elsewhere.find_running_studies_beside(unblinded):
        take_back_readable(study)


def take_back_from(user: User) -> None:
    """Do so in every running study in which this account has a seat."""
    seats = Rater.objects.filter(user=user, study__status__in=("open", "paused")).select_related("study")
    for seat in seats.order_by("study_id"):
        take_back_readable(seat.study, [seat])


def _list_unshown(study: Study, seat: Rater, items: Collection[int]) -> list[Assignment]:
    """Return this seat's assignments of these items that were not shown, locked.

    A case of a crossover stays whole: it is left alone if either version was shown.
    """
    rows = seat.assignments.filter(item__in=items)
    if designs.is_crossover(study):
        shown = seat.assignments.exclude(redealing.UNSERVED).values("pair")
        rows = rows.exclude(pair__in=shown)
    return list(rows.select_for_update(of=("self",)).filter(redealing.UNSERVED).order_by("pk"))


def _give_up(study: Study, seats: Collection[Rater], rows: Collection[Assignment]) -> int:
    """Free these assignments and deal them to others. Return how many ratings are left that nobody may give."""
    freed = Assignment.objects.filter(pk__in=[row.pk for row in rows])
    if designs.is_pool(study):
        freed.update(slot=None, released_at=timezone.now())  # claimed a moment ago: its row says by whom
        return 0
    firsts = sum(row.occasion == FIRST for row in rows)
    freed.delete()
    if designs.is_crossover(study):
        return firsts  # everybody else has a version of every pair already
    losers = [seat for seat in seats if seat.pk in {row.rater_id for row in rows}]
    redealing.lay_out(study, [seat.pk for seat in losers])
    left = redealing.deal_free(study, redealing.takers(study)).left
    if not designs.is_crossed(study):
        redealing.even_out(study, losers)
    return left


def _describe(label: str, count: int) -> str:
    return f"{label}, who can read {counted(count, 'item')} in another study or in the laboratory: not dealt to them"
