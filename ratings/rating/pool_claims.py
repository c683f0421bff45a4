"""Claim items in pool studies. A rater who requests an item has it reserved for a limited time.

Two safeguards prevent an item from being claimed more often than planned: the study's row is locked while a claim
chooses, and a unique constraint rejects a second active assignment with the same slot.
"""

import random
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import Count, F, Max, Min, Q, QuerySet

from ratings.models import Assignment, Item, Rater, Study
from ratings.models.answers import FIRST, SECOND, WAITING
from ratings.protocol import Arm, StudyProtocol
from ratings.studies import designs, readable_elsewhere, reassign
from ratings.studies.item_counts import update_item_counts
from ratings.studies.reassign import LIVE
from wetbench_site.text import hash_text

# How many slots of an item are taken. Released and repeated assignments take none.
_TAKEN = Count("assignments", filter=Q(
    assignments__occasion=FIRST, assignments__slot__isnull=False, assignments__released_at__isnull=True
))  # fmt: skip


class OpenItem(NamedTuple):
    """An item with a free slot that this rater may rate."""

    item: int
    pair: UUID
    taken_slots: int
    was_reserved: bool  # by this rater, whose reservation expired
    order: str


def claim_item(rater: Rater, now: datetime) -> Assignment | None:
    """Return the unrated assignment this rater already has, else claim an item; None if none can be claimed."""
    # Without the lock first: a rater who reloads the page must not wait for others who claim.
    reserved = _active_assignments(rater).exclude(reserved_until__lte=now).first()
    return reserved or _claim_locked(rater, now)


def release_expired_reservations(study: Study, now: datetime, except_rater: Rater | None = None) -> int:
    """Release the slots of expired reservations and return their number. The assignments remain for late answers."""
    expired = Assignment.objects.filter(LIVE, WAITING, rater__study=study, reserved_until__lte=now)
    # The rater who is asking is excluded: their own expired reservation is extended, not given to others.
    rows = dict(expired.exclude(rater=except_rater).values_list("pk", "rater"))
    if rows:
        Assignment.objects.filter(pk__in=rows).update(slot=None, released_at=now)
        update_item_counts(Rater.objects.filter(pk__in=set(rows.values())))
    return len(rows)


def count_claimable_items(rater: Rater) -> int:
    """Return how many more items this rater could rate now."""
    # Pairs, not items: taking one version makes all other versions of the pair unavailable.
    return min(len({place.pair for place in _list_open_items(rater)}), _remaining_quota(rater))


def find_next_expiry(rater: Rater) -> datetime | None:
    """Return when the first reservation ends that keeps an item from this rater, or None."""
    if not _remaining_quota(rater):
        return None
    assigned = rater.assignments.filter(occasion=FIRST, released_at__isnull=True).values("item")
    # An expired reservation does not block its pair: the rater may take the same item again.
    blocked = rater.assignments.filter(occasion=FIRST).exclude(_expired_reservations()).values("pair")
    reserved = Assignment.objects.filter(LIVE, WAITING, rater__study=rater.study, reserved_until__isnull=False)
    reserved = reserved.exclude(rater=rater).exclude(item__in=assigned).exclude(pair__in=blocked)
    # An item that the rater can read elsewhere with its source never becomes available to them.
    reserved = reserved.exclude(item__in=readable_elsewhere.find_readable_by(rater.study, rater))
    earliest: datetime | None = reserved.aggregate(first=Min("reserved_until"))["first"]
    return earliest


@transaction.atomic
def _claim_locked(rater: Rater, now: datetime) -> Assignment | None:
    study = rater.study = reassign.lock_study(rater.study_id)
    # Again under the lock: a second tab of the same rater may have claimed meanwhile.
    reserved = _active_assignments(rater).first()
    if reserved or not study.is_open:
        return _renew_reservation(reserved, study, now) if reserved else None
    # Only the others' expired reservations end here; nothing runs on a schedule, so the next request does this work.
    release_expired_reservations(study, now, except_rater=rater)
    # A repeat that is due comes first. Otherwise repeats would collect at the end, when the pool is empty.
    return _claim_repeat(rater, study) or _claim_free_slot(rater, study, now)


def _active_assignments(rater: Rater) -> QuerySet[Assignment]:
    return rater.assignments.filter(WAITING).select_related("item").order_by("position")


def _renew_reservation(assignment: Assignment, study: Study, now: datetime) -> Assignment:
    """Extend a reservation that expired before anybody else claimed the item, and return the assignment."""
    if assignment.reserved_until and assignment.reserved_until <= now:
        assignment.reserved_until = now + designs.get_reservation_time(study)
        assignment.save(update_fields=["reserved_until"])
    return assignment


def _claim_free_slot(rater: Rater, study: Study, now: datetime) -> Assignment | None:
    if not _remaining_quota(rater):
        return None
    # An item the rater has already seen comes first, so that their time on it is not lost; then the least rated item,
    # so coverage grows evenly.
    best = min(
        _list_open_items(rater), key=lambda one: (not one.was_reserved, one.taken_slots, one.order), default=None
    )
    if best is None:
        return None
    values = {
        "slot": reassign.find_free_slot(best.item, study.ratings_per_item),
        "reserved_until": now + designs.get_reservation_time(study),
    }
    # The rater had this item before: the old row is used again, because a rater has one assignment per item.
    if best.was_reserved:
        rater.assignments.filter(item=best.item, occasion=FIRST).update(released_at=None, **values)
    else:
        display_arm = _choose_arm(rater, designs.load_study_protocol(study), best.item)._asdict()
        place = {"rater": rater, "item_id": best.item, "pair": best.pair, "position": _last_position(rater) + 1}
        Assignment.objects.create(**place, **values, **display_arm)
    _count_claim(rater)
    return rater.assignments.select_related("item").get(item=best.item, occasion=FIRST)


def _count_claim(rater: Rater) -> None:
    # Not counted again: that would read every item of the rater.
    Rater.objects.filter(pk=rater.pk).update(waiting_items=F("waiting_items") + 1)


def _expired_reservations() -> Q:
    """Return a filter for assignments whose reservation expired before they were rated."""
    return Q(answered_at__isnull=True, released_at__isnull=False)


def _list_open_items(rater: Rater) -> Iterator[OpenItem]:
    assigned = rater.assignments.filter(occasion=FIRST)
    reserved_before = set(assigned.filter(_expired_reservations()).values_list("item", flat=True))
    assigned_pairs = set(assigned.values_list("pair", flat=True))
    readable = readable_elsewhere.find_readable_by(rater.study, rater)
    seed = f"{rater.study.random_seed}/{rater.number}"
    items = Item.objects.filter(study=rater.study).annotate(taken=_TAKEN)
    items = items.filter(taken__lt=rater.study.ratings_per_item)
    for item, pair, taken, content in items.values_list("pk", "source__pair", "taken", "payload_sha256"):
        if item not in readable and (item in reserved_before or pair not in assigned_pairs):
            # Random per rater but constant over time. The order comes from the content digest, not from the primary
            # key, which may follow the order of selection.
            yield OpenItem(item, pair, taken, item in reserved_before, hash_text(f"{seed}/{content}"))


def _remaining_quota(rater: Rater) -> int:
    """Return how many more items this rater may rate."""
    limit = designs.load_study_protocol(rater.study).items_per_rater
    if limit is None:
        return rater.study.items.count()
    # Expired reservations do not use up the limit, because the rater gave no answer.
    return max(limit - rater.assignments.filter(occasion=FIRST).exclude(_expired_reservations()).count(), 0)


def _last_position(rater: Rater) -> int:
    return rater.assignments.aggregate(last=Max("position"))["last"] or 0


def _choose_arm(rater: Rater, protocol: StudyProtocol, item: int) -> Arm:
    """Return the rater's arm or, in studies with arms by item, the one this rater and then this item had least often."""
    if protocol.display.by == "rater":
        return designs.get_arm(rater)
    arms_of_rater = Counter(_list_arms(rater.assignments.filter(occasion=FIRST)))
    arms_of_item = Counter(_list_arms(Assignment.objects.filter(LIVE, item=item)))
    arms = list(designs.list_arms_of(protocol))
    # Ties are broken at random; the seed makes the choice reproducible.
    random.Random(f"arm/{rater.study.random_seed}/{rater.number}/{item}").shuffle(arms)
    return min(arms, key=lambda arm: (arms_of_rater[arm], arms_of_item[arm]))


def _list_arms(assignments: QuerySet[Assignment]) -> Iterator[Arm]:
    return (Arm(*row) for row in assignments.values_list("layout", "with_context", "marks"))


def _claim_repeat(rater: Rater, study: Study) -> Assignment | None:
    """Assign one of the rater's own items for the second time and return the assignment; None if no repeat is due.

    A repeat is due if the share of repeats is below the protocol's, and an item was rated far enough back.
    """
    protocol = designs.load_study_protocol(study)
    rated = rater.assignments.filter(occasion=FIRST, answered_at__isnull=False)
    repeats = rater.assignments.filter(occasion=SECOND)
    # 1e-9: 0.1 times 30 is slightly less than 3 in floating point.
    if not protocol.repeats or repeats.count() >= int(protocol.repeats * rated.count() + 1e-9):
        return None
    last_position = _last_position(rater)
    candidates = rated.filter(position__lte=last_position - protocol.repeat_distance)
    candidates = candidates.exclude(item__in=repeats.values("item"))
    candidates = candidates.exclude(item__in=readable_elsewhere.find_readable_by(study, rater))
    if not (eligible := list(candidates.order_by("position"))):
        return None
    # The seed contains the position, so a reload before the row is committed chooses the same item.
    original = random.Random(f"repeat/{study.random_seed}/{rater.number}/{last_position}").choice(eligible)
    # The arm is copied: test-retest agreement compares the same screen.
    copied = {"item": original.item, "pair": original.pair, "layout": original.layout, "marks": original.marks}
    _count_claim(rater)
    return Assignment.objects.create(
        rater=rater, occasion=SECOND, position=last_position + 1, with_context=original.with_context, **copied
    )
