"""Pool studies: an item is claimed when its rater comes for it, and kept for them until their lease ends.

Two guards see to it that no item is claimed more often than wanted: the study's row is locked while one claim chooses,
and of two live assignments with the same slot the database refuses the second.
"""

import hashlib
import random
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import Count, Max, Min, Q, QuerySet

from ratings.models import Assignment, Item, Rater, Study
from ratings.models.answers import FIRST, SECOND
from ratings.protocol import Arm, StudyProtocol
from ratings.studies import designs
from ratings.studies.seats import readable_elsewhere, slots
from ratings.studies.seats.slots import LIVE

_TAKEN = Count("assignments", filter=Q(
    assignments__occasion=FIRST, assignments__slot__isnull=False, assignments__released_at__isnull=True
))  # fmt: skip


class Open(NamedTuple):
    """An item with a slot that this rater may take."""

    item: int
    pair: UUID
    taken: int
    begun: bool  # this rater has had it before, and their lease ended
    order: str


def claim(seat: Rater, now: datetime) -> Assignment | None:
    """What this rater holds already, else a slot of the item that has been taken least often."""
    held = _held(seat).exclude(lease_until__lte=now).first()
    return held or _claim(seat, now)


def release_expired(study: Study, now: datetime, but: Rater | None = None) -> int:
    """Give back the slots of items that were not rated in time; the rows stay, and what is sent late is still read."""
    rows = Assignment.objects.filter(LIVE, rater__study=study, rating__isnull=True, lease_until__lte=now)
    return rows.exclude(rater=but).update(slot=None, released_at=now)


def still_open(seat: Rater) -> int:
    """How many more items this rater could have now."""
    return min(len({place.pair for place in _open_to(seat)}), _room(seat))


def next_expiry(seat: Rater) -> datetime | None:
    """When the first lease ends that keeps this rater from an item."""
    if not _room(seat):
        return None
    own = seat.assignments.filter(occasion=FIRST, released_at__isnull=True).values("item")
    blocked = seat.assignments.filter(occasion=FIRST).exclude(_begun()).values("pair")
    leased = Assignment.objects.filter(LIVE, rater__study=seat.study, rating__isnull=True, lease_until__isnull=False)
    leased = leased.exclude(rater=seat).exclude(item__in=own).exclude(pair__in=blocked)
    leased = leased.exclude(item__in=readable_elsewhere.find_readable_by(seat.study, seat))
    first: datetime | None = leased.aggregate(first=Min("lease_until"))["first"]
    return first


@transaction.atomic
def _claim(seat: Rater, now: datetime) -> Assignment | None:
    study = seat.study = slots.lock(seat.study_id)
    held = _held(seat).first()
    if held or not study.is_open:
        return _renewed(held, study, now) if held else None
    release_expired(study, now, but=seat)
    return _repeat(seat, study) or _take(seat, study, now)


def _held(seat: Rater) -> QuerySet[Assignment]:
    rows = seat.assignments.filter(rating__isnull=True, released_at__isnull=True)
    return rows.select_related("item").order_by("position")


def _renewed(held: Assignment, study: Study, now: datetime) -> Assignment:
    """Its lease ended and nobody else came for it: its rater is here, and goes on."""
    if held.lease_until and held.lease_until <= now:
        held.lease_until = now + designs.lease(study)
        held.save(update_fields=["lease_until"])
    return held


def _take(seat: Rater, study: Study, now: datetime) -> Assignment | None:
    if not _room(seat):
        return None
    if (best := min(_open_to(seat), key=lambda o: (not o.begun, o.taken, o.order), default=None)) is None:
        return None
    values = {"slot": slots.free_slot(best.item, study.ratings_per_item), "lease_until": now + designs.lease(study)}
    if best.begun:
        seat.assignments.filter(item=best.item, occasion=FIRST).update(released_at=None, **values)
    else:
        arm = _arm(seat, designs.protocol_of(study), best.item)
        place = Assignment(rater=seat, item_id=best.item, pair=best.pair, position=_last(seat) + 1, **values)
        place.layout, place.with_context, place.marks = arm
        place.save()
    return seat.assignments.select_related("item").get(item=best.item, occasion=FIRST)


def _begun() -> Q:
    """Shown or claimed before, and given back when the lease ended."""
    return Q(rating__isnull=True, released_at__isnull=False)


def _open_to(seat: Rater) -> Iterator[Open]:
    begun = set(seat.assignments.filter(_begun(), occasion=FIRST).values_list("item", flat=True))
    met = set(seat.assignments.filter(occasion=FIRST).values_list("pair", flat=True))
    readable = readable_elsewhere.find_readable_by(seat.study, seat)
    items = Item.objects.filter(study=seat.study).annotate(taken=_TAKEN)
    items = items.filter(taken__lt=seat.study.ratings_per_item)
    for item, pair, taken, content in items.values_list("pk", "source__pair", "taken", "payload_sha256"):
        if item not in readable and (item in begun or pair not in met):
            yield Open(item, pair, taken, item in begun, _order(seat, content))


def _order(seat: Rater, content: str) -> str:
    """A random order of each rater's own, the same whenever it is asked for."""
    return hashlib.sha256(f"{seat.study.draw}/{seat.number}/{content}".encode()).hexdigest()


def _room(seat: Rater) -> int:
    """How many items more this rater may have."""
    most = designs.protocol_of(seat.study).items_per_rater
    if most is None:
        return seat.study.items.count()
    return max(most - seat.assignments.filter(occasion=FIRST).exclude(_begun()).count(), 0)


def _last(seat: Rater) -> int:
    return seat.assignments.aggregate(last=Max("position"))["last"] or 0


def _arm(seat: Rater, protocol: StudyProtocol, item: int) -> Arm:
    """The seat's own; or the one that this rater, then this item, has had least often."""
    if protocol.display.by == "rater":
        return designs.arm(seat)
    own = Counter(_shown(seat.assignments.filter(occasion=FIRST)))
    here = Counter(_shown(Assignment.objects.filter(LIVE, item=item)))
    every = list(designs.arms_of(protocol))
    random.Random(f"arm/{seat.study.draw}/{seat.number}/{item}").shuffle(every)
    return min(every, key=lambda arm: (own[arm], here[arm]))


def _shown(places: QuerySet[Assignment]) -> Iterator[Arm]:
    return (Arm(*row) for row in places.values_list("layout", "with_context", "marks"))


def _repeat(seat: Rater, study: Study) -> Assignment | None:
    """An item of their own once more, when the share is due and one lies far enough back. None that they can read elsewhere."""
    protocol = designs.protocol_of(study)
    rated = seat.assignments.filter(occasion=FIRST, rating__isnull=False)
    again = seat.assignments.filter(occasion=SECOND)
    if not protocol.repeats or again.count() >= int(protocol.repeats * rated.count() + 1e-9):
        return None
    last = _last(seat)
    far = rated.filter(position__lte=last - protocol.repeat_distance).exclude(item__in=again.values("item"))
    far = far.exclude(item__in=readable_elsewhere.find_readable_by(study, seat))
    if not (choice := list(far.order_by("position"))):
        return None
    first = random.Random(f"repeat/{study.draw}/{seat.number}/{last}").choice(choice)
    same = {"item": first.item, "pair": first.pair, "layout": first.layout, "marks": first.marks}
    return Assignment.objects.create(
        rater=seat, occasion=SECOND, position=last + 1, with_context=first.with_context, **same
    )
