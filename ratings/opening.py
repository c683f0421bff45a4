"""What opening a study makes: items chosen from the pool and frozen blinded, seats, and the work dealt out to them."""

import random
import uuid
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from django.db.models import Count
from django.utils import timezone

from ratings import planning, pool
from ratings.blinding import payload_digest
from ratings.models import Assignment, Item, ItemSource, Rater, Study
from ratings.planning import PlanError, Planned
from ratings.pool import Found
from ratings.protocols import StudyProtocol


class Filled(NamedTuple):
    """How many items and seats a study was given."""

    items: int
    seats: int


def fill(study: Study, protocol: StudyProtocol, raters: int | None) -> Filled:
    """Everything an empty study needs; as few seats as will do unless `raters` says how many. Part of a transaction."""
    chosen = _choose(protocol, raters)
    items = _freeze(study, chosen)
    planned = [
        Planned(str(items[f.candidate.key].pk), f.candidate.source, f.candidate.pair, study.ratings_per_item)
        for f in chosen
    ]
    seats = raters or max(planning.raters_needed(planned), study.ratings_per_item)
    _seat_and_assign(study, planned, seats)
    return Filled(len(items), seats)


def deal_again(study: Study, free: Sequence[Rater], raters: int) -> None:
    """What the free seats were to rate, dealt to `raters` new seats in their place. Part of a transaction."""
    needed = (
        Assignment.objects.filter(rater__in=free)
        .values_list("item_id", "pair", "item__source__label", "item__source__perturbation")
        .annotate(n=Count("pk"))
        .order_by("item__source__experiment", "item__payload_sha256")
    )
    planned = [Planned(str(item), (label, wrong), str(pair), n) for item, pair, label, wrong, n in needed]
    Assignment.objects.filter(rater__in=free).delete()
    Rater.objects.filter(pk__in=[rater.pk for rater in free]).delete()
    _seat_and_assign(study, planned, raters)


def _choose(protocol: StudyProtocol, raters: int | None) -> list[Found]:
    found = {f.candidate.key: f for f in pool.find(protocol)}
    wanted = {(source.cast, source.perturbation): source.count for source in protocol.sources}
    versions = raters // protocol.ratings_per_item if raters else None
    if versions == 0:
        least = protocol.ratings_per_item
        raise PlanError(f"{raters} raters are too few for {least} ratings per item; {least} would work")
    chosen = planning.choose([f.candidate for f in found.values()], wanted, protocol.seed, versions)
    return [found[candidate.key] for candidate in chosen]


def _freeze(study: Study, chosen: Sequence[Found]) -> Mapping[str, Item]:
    """Items and their sources, made in one shuffled batch so that no id or time tells what belongs together."""
    order = list(chosen)
    random.Random(f"freeze/{study.seed}").shuffle(order)
    now = timezone.now()
    rows = [
        Item(study=study, payload=f.payload, payload_sha256=payload_digest(f.payload), created_at=now) for f in order
    ]
    items = dict(zip([f.candidate.key for f in order], Item.objects.bulk_create(rows), strict=True))
    pairs = {f.candidate.pair: uuid.uuid4() for f in chosen}
    ItemSource.objects.bulk_create(_source(items[f.candidate.key], f, pairs[f.candidate.pair]) for f in order)
    return items


def _source(item: Item, found: Found, pair: UUID) -> ItemSource:
    candidate = found.candidate
    return ItemSource(
        item=item,
        pair=pair,
        label=candidate.source[0],
        perturbation=candidate.source[1],
        experiment=candidate.experiment,
        action=candidate.action,
        **found.origin,
    )


def _seat_and_assign(study: Study, planned: Sequence[Planned], seats: int) -> None:
    places = planning.assign(planned, seats, study.seed)
    first = _last_label(study) + 1
    raters = [_seat(study, number) for number in range(first, first + seats)]
    pairs = dict(ItemSource.objects.filter(item__study=study).values_list("item_id", "pair"))
    rows = [
        Assignment(
            item_id=int(place.key), rater=raters[place.rater], position=place.position, pair=pairs[int(place.key)]
        )
        for place in places
    ]
    random.Random(f"assignments/{study.seed}").shuffle(rows)
    Assignment.objects.bulk_create(rows, batch_size=500)


def _last_label(study: Study) -> int:
    return max(study.raters.values_list("number", flat=True), default=0)


def _seat(study: Study, number: int) -> Rater:
    """A free seat: nobody holds it yet."""
    return Rater.objects.create(study=study, number=number, label=f"R{number:02}")
