"""Seats of a running study: late ones, free ones, withdrawn ones; and items that come late."""

from collections.abc import Sequence

from django.db import transaction
from django.db.models import Count, Q
from django.utils import timezone

from ratings.blinding import payload_digest
from ratings.models import Assignment, ItemSource, Rater, Study
from ratings.models.study_events import ItemsAdded, SeatsAdded, SeatsReplanned, Withdrawn
from ratings.protocol import Found, PlanError
from ratings.protocol.planning import Planned
from ratings.protocol.protocols import MOST_RATERS
from ratings.stats.nouns import counted
from ratings.studies import crossover, designs
from ratings.studies.errors import StudyError
from ratings.studies.lifecycle import Actor, log
from ratings.studies.pool import opening, pool
from ratings.studies.seats import redealing, slots
from ratings.studies.seats.redealing import LIVE, Dealt


@transaction.atomic
def add_seats(study: Study, n: int, by: Actor = None) -> list[Rater]:
    """Seats for raters who come late. Nothing that was served moves.

    Balanced: what nobody may have so far is theirs, then unserved work is evened out. Crossed: they get every item, and
    each item wants as many ratings more. Pool: they claim.
    """
    study = _running(study)
    if n < 1 or study.raters.count() + n > MOST_RATERS:
        raise StudyError(f"{n} seats cannot be added: a study has at most {MOST_RATERS}, and one is the least to add")
    seats = opening.make_seats(study, n)
    moved = 0
    if designs.is_crossed(study):
        _want_more(study, n)
    if designs.is_crossover(study):
        moved = _deal_sessions(study, seats)
    elif not designs.is_pool(study):
        moved = redealing.deal_free(study, seats).given
    if not (designs.is_pool(study) or designs.is_crossed(study)):
        moved += redealing.even_out(study, seats)
    crossed = designs.is_crossed(study)  # whose document wants as many raters as ratings, whoever left
    study.protocol["raters"] = study.ratings_per_item if crossed else study.protocol.get("raters", 0) + n
    study.save(update_fields=["protocol", "ratings_per_item"])
    log(study, SeatsAdded(added=tuple(seat.label for seat in seats), items=moved), by)
    return seats


@transaction.atomic
def withdraw(seat: Rater, by: Actor = None) -> Dealt:
    """The rater leaves. What they were still to rate is dealt to others; by the study's rule so is what they did rate."""
    study = slots.lock(seat.study_id)
    row = Rater.objects.select_for_update().get(pk=seat.pk)
    if row.withdrawn_at:
        return Dealt(0, 0)
    if study.is_unblinded:
        raise StudyError(f"{study.name} is unblinded: its results stand. Personal data can still be erased.")
    row.withdrawn_at = seat.withdrawn_at = timezone.now()
    row.dropped = seat.dropped = designs.protocol_of(study).withdrawal == "drop"
    row.save(update_fields=["withdrawn_at", "dropped"])
    row.invitations.filter(used_at__isnull=True, revoked_at__isnull=True).update(revoked_at=row.withdrawn_at)
    _give_back(row)
    planned = study.status in ("open", "paused") and not designs.is_pool(study)
    dealt = redealing.deal_free(study, redealing.takers(study)) if planned else Dealt(0, 0)
    own = by is not None and by.pk == row.user_id  # the log must not tie a name to a code
    content = Withdrawn(rater=row.label, dropped=row.dropped, dealt=dealt.given, left=dealt.left)
    log(study, content, None if own else by)
    return dealt


@transaction.atomic
def add_items(study: Study, found: Sequence[Found], by: Actor = None) -> int:
    """More items for an open study, each to as many raters as the others, in random order behind what was served."""
    study = _running(study)
    if designs.is_crossover(study):
        raise StudyError(
            f"{study.name} is a crossover: items added now would miss the sessions that raters have begun. Duplicate the "
            "study and ask for more items there, or choose another design"
        )
    new = {payload_digest(one.payload) for one in found}
    known = study.items.filter(payload_sha256__in=new).count()
    if known or len(new) < len(found):
        raise PlanError(f"{counted(known + len(found) - len(new), 'item')} would be in the study twice")
    if (sent := list(found)) and not designs.protocol_of(study).allow_unblinded:
        refused = pool.separate_unblinded(sent)[1]
        if refused:
            raise PlanError(
                f"{counted(len(refused), 'item')} or versions of them stand in an unblinded study, and this study's document "
                "does not allow that (allow_unblinded)"
            )
    pool.settle(study, found)
    opening.freeze(study, found)
    pooled = designs.is_pool(study)
    if pooled and found:  # whoever has claimed and rated all they may finds more
        redealing.find_idle(study).update(new_items_at=timezone.now())
    dealt = Dealt(0, 0) if pooled else redealing.deal_free(study, redealing.takers(study))
    log(study, ItemsAdded(items=len(found), left=dealt.left), by)
    return len(found)


@transaction.atomic
def replan(study: Study, raters: int) -> None:
    """Give what nobody has been asked to rate yet to `raters` new seats in place of the free ones."""
    study = _running(study)
    free = free_seats(study)
    slots: dict[str, list[int]] = {}
    rows = Assignment.objects.filter(LIVE, rater__in=free).order_by("item__payload_sha256", "slot")
    for item, slot in rows.values_list("item_id", "slot"):
        slots.setdefault(str(item), []).extend([slot] if slot else [])
    Assignment.objects.filter(rater__in=free).delete()
    Rater.objects.filter(pk__in=[seat.pk for seat in free]).delete()
    seats = opening.make_seats(study, raters)
    planned = _planned(study, slots)
    places = opening.assign(designs.protocol_of(study), study.draw, planned, raters, seats[0].number)
    own = [place._replace(slot=slots[place.key][place.slot - 1]) if place.slot else place for place in places]
    opening.write(study, own, seats)
    log(study, SeatsReplanned(free=len(free), raters=raters))


def free_seats(study: Study) -> list[Rater]:
    """Seats that nobody was invited to, nobody holds and nobody simulates, in order."""
    free = study.raters.filter(user__isnull=True, invited_at__isnull=True, simulated=False, imported_as="")
    return list(free.filter(started_at__isnull=True, withdrawn_at__isnull=True).order_by("number"))


def _running(study: Study) -> Study:
    row = slots.lock(study.pk)
    if row.status not in ("open", "paused"):
        raise StudyError(f"{row.name} is {row.status}; seats and items are added while a study runs")
    return row


def _want_more(study: Study, n: int) -> None:
    """So many ratings more of each item, where no rater who left has made room for them."""
    items = study.items.annotate(live=Count("assignments", filter=_LIVE_HERE))
    most = max(items.values_list("live", flat=True), default=0) + n
    study.ratings_per_item = max(study.ratings_per_item, most)
    study.protocol["ratings_per_item"] = study.ratings_per_item


def _give_back(seat: Rater) -> None:
    """Unrated places are released; those of a rater whose ratings are dropped are free for others as well."""
    now = seat.withdrawn_at
    seat.assignments.filter(rating__isnull=True, released_at__isnull=True).update(slot=None, released_at=now)
    if seat.dropped:
        seat.assignments.filter(slot__isnull=False).update(slot=None)


def _deal_sessions(study: Study, seats: Sequence[Rater]) -> int:
    """Give new seats of a crossover both sessions: every item, each in a slot that nobody holds."""
    free = redealing.free_slots(study)
    places = opening.assign(designs.protocol_of(study), study.draw, _planned(study, free), len(seats), seats[0].number)
    opening.write(study, [place._replace(slot=free[place.key][place.rater]) for place in places], seats)
    return len(places)


def _planned(study: Study, slots: dict[str, list[int]]) -> list[Planned]:
    sources = ItemSource.objects.filter(item__study=study).order_by("experiment", "item__payload_sha256")
    rows = sources.values_list("item_id", "label", "perturbation", "pair")
    every = {str(item): ((label, wrong), str(pair)) for item, label, wrong, pair in rows}
    condition = crossover.stored_conditions(study) if designs.is_crossover(study) else {}
    return [
        Planned(key, source, pair, len(slots[key]), condition.get(key, 0))
        for key, (source, pair) in every.items()
        if key in slots
    ]


_LIVE_HERE = Q(assignments__occasion=1, assignments__slot__isnull=False, assignments__released_at__isnull=True)
