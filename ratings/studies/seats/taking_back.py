"""Take back from raters what they can read elsewhere and have not been shown, and give it to others.

It is done whenever somebody gains the right to read: a seat is taken, a study is unblinded, a role is given in an unblinded
study, a closed study is opened again. What a rater was shown stays theirs; the blinding audit then says so.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import NamedTuple
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from ratings.models import Assignment, ItemSource, Rater, Study, StudyEvent
from ratings.models.answers import FIRST
from ratings.models.study_events import ItemsTakenBack
from ratings.studies import designs
from ratings.studies.seats import readable_elsewhere, redealing, slots


class TakenBack(NamedTuple):
    """How many items were taken back from raters, how many ratings nobody else may give, and of how many cases of a
    crossover one version was taken back and the other was shown before."""

    items: int
    left: int = 0
    incomplete: int = 0


NOTHING = TakenBack(0)


@transaction.atomic
def take_back_readable(study: Study, seats: Iterable[Rater] | None = None) -> TakenBack:
    """Take from these seats, or from all, each item that its holder can read elsewhere and was not shown. Log it.

    Planned designs give the ratings to other raters, who may give something in exchange. Ratings that nobody may give
    wait for another seat. Nothing is done in a study that takes no ratings.
    """
    study = slots.lock(study.pk)
    if study.status not in ("open", "paused"):
        return NOTHING
    live = study.raters.filter(user__isnull=False, withdrawn_at__isnull=True, finished_at__isnull=True)
    chosen = list(live if seats is None else live.filter(pk__in=[seat.pk for seat in seats]))
    readable = readable_elsewhere.find_readable(study, chosen)
    rows = [row for seat in chosen if seat.pk in readable for row in _list_unshown(study, seat, readable[seat.pk])]
    if not rows:
        return NOTHING
    items = {(row.rater_id, row.item_id) for row in rows}
    incomplete = _count_incomplete(rows) if designs.is_crossover(study) else 0
    taken = TakenBack(len(items), _give_up(study, chosen, rows), incomplete)
    # Without a rater's label and without the other study: either could connect the label with a name.
    StudyEvent.record(study, ItemsTakenBack(items=taken.items, incomplete=taken.incomplete, left=taken.left))
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

    Of a case of a crossover both versions are meant, whichever can be read. If one was shown, the other is returned.
    """
    rows = seat.assignments.filter(item__in=items)
    if designs.is_crossover(study):
        rows = seat.assignments.filter(pair__in=ItemSource.objects.filter(item__in=items).values("pair"))
    return list(rows.select_for_update(of=("self",)).filter(redealing.UNSERVED).order_by("pk"))


def _count_incomplete(rows: Iterable[Assignment]) -> int:
    """Count the cases of which these raters were shown one version, the other being among these assignments."""
    pairs: dict[int, set[UUID]] = defaultdict(set)
    for row in rows:
        pairs[row.rater_id].add(row.pair)
    shown = Assignment.objects.filter(rater__in=pairs).exclude(redealing.UNSERVED)
    return sum(pair in pairs[rater] for rater, pair in shown.values_list("rater_id", "pair"))


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
