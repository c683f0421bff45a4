"""What opening a study creates: items chosen from the pool and frozen blinded, raters, and their assignments."""

import random
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django.utils import timezone

from ratings.blinding import pair_digest, payload_digest
from ratings.models import Assignment, Item, ItemSource, Rater, Study
from ratings.protocol import Found, PlanError, StudyProtocol, planning
from ratings.protocol.planning import Alike, Matrix, Place, Planned
from ratings.stats.nouns import counted
from ratings.studies import crossover, designs
from ratings.studies.pool import pool


class Filled(NamedTuple):
    """How many items and raters a study got, and how many items it could have had but for an unblinded study (`left_out`).

    `shown`: how many of its items come from an episode that an unblinded study of the other kind shows. `alike`: cases of a crossover that are
    left out because both sources gave the identical outcome.
    """

    items: int
    seats: int
    left_out: int = 0
    shown: int = 0
    alike: Alike = Alike()


class Preview(NamedTuple):
    """What opening would create: items, raters, ratings planned in all, and how many items of which source each rater would get.

    In a pool study the rows of the matrix are empty: nothing is assigned before raters come. `places` have raters 0, 1,
    ... for R01, R02, ..., with the keys of `planned`.
    """

    items: int
    seats: int
    ratings: int
    matrix: Matrix
    planned: tuple[Planned, ...] = ()
    places: tuple[Place, ...] = ()
    origins: Mapping[str, Mapping[str, Any]] = {}  # by key: the columns that its ItemSource would have
    alike: Alike = Alike()


def fill(study: Study, protocol: StudyProtocol, raters: int | None) -> Filled:
    """Create everything an empty study needs, in the caller's transaction. `raters` None: as few raters as needed."""
    inventory = pool.look(protocol, study)
    chosen = _choose_usable(inventory, protocol, raters)
    pool.settle(study, chosen, inventory.held)
    items = freeze(study, chosen)
    # From here on the plan's keys are those of items: they exist now, and assignments refer to them.
    planned = [plan._replace(key=str(items[plan.key].pk)) for plan in _planned(protocol, chosen)]
    n_raters = _seats(protocol, planned, raters)
    planned = crossover.under_their_pairs(planned) if protocol.is_crossover else planned
    places = assign(protocol, study.draw, planned, n_raters)
    write(study, places, make_seats(study, n_raters))
    left_out, shown_count = (
        pool.count_left_out(inventory.left_out, protocol),
        len(pool.separate_shown(chosen, protocol.kind)),
    )
    return Filled(len(items), n_raters, left_out, shown_count, crossover.count_alike(inventory.usable, protocol))


def preview(protocol: StudyProtocol, study: Study | None = None, raters: int | None = None) -> Preview:
    """Return what `freeze_study` would do now, without writing. Raises PlanError if it would fail."""
    inventory = pool.look(protocol, study)
    chosen = _choose_usable(inventory, protocol, raters or protocol.raters)
    planned = _planned(protocol, chosen)
    n_raters = _seats(protocol, planned, raters or protocol.raters)
    places = assign(protocol, protocol.seed, planned, n_raters)
    ratings = sum(plan.needed for plan in planned)
    matrix = planning.matrix(planned, places, n_raters)
    return Preview(len(planned), n_raters, ratings, matrix, tuple(planned), tuple(places),
                   {found.candidate.key: found.origin for found in chosen},
                   crossover.count_alike(inventory.usable, protocol))  # fmt: skip


def _choose_usable(seen: pool.Look, protocol: StudyProtocol, raters: int | None) -> list[Found]:
    """Choose among usable candidates. If there are too few, PlanError also states how many are left out, and why."""
    left_out = pool.count_left_out(seen.left_out, protocol)
    reason = f"{counted(left_out, 'item')} left out, because they or versions of them are in an unblinded study"
    try:
        chosen = choose(seen.usable, protocol, raters)
    except PlanError as error:
        raise PlanError(f"{error}; {reason}" if left_out else str(error)) from error
    if left_out and not chosen:
        raise PlanError(f"no item remains: {reason}")
    return chosen


def choose(every: Sequence[Found], protocol: StudyProtocol, raters: int | None) -> list[Found]:
    """Return as many items of each source as the study requests, and every item that was imported into it."""
    if protocol.is_crossover:
        return crossover.choose(every, protocol)
    imported = [drawable for drawable in every if drawable.origin.get("imported_id")]
    imported_contents = {drawable.candidate.content for drawable in imported}
    # A pool item with the content of an imported one would be in the study twice.
    drawable = {
        f.candidate.key: f
        for f in every
        if not f.origin.get("imported_id") and f.candidate.content not in imported_contents
    }
    requested = {(source.cast, source.perturbation): source.count for source in protocol.sources}
    candidates = [f.candidate for f in drawable.values()]
    chosen = planning.choose(candidates, requested, protocol.seed, _versions(protocol, raters))
    return [drawable[candidate.key] for candidate in chosen] + imported


def assign(
    protocol: StudyProtocol, seed: int, planned: Sequence[Planned], seats: int, first_seat: int = 1
) -> list[Place]:
    """Return the assignments as the study's document plans them."""
    if protocol.is_crossover:
        arms = crossover.arms(protocol)
        return planning.assign_sessions(planned, seats, seed, arms=arms, first_seat=first_seat)
    return planning.assign(
        planned,
        seats,
        seed,
        design=protocol.design,
        arms=designs.arms_of(protocol),
        by=protocol.display.by,
        repeats=protocol.repeats,
        distance=protocol.repeat_distance,
        most=protocol.items_per_rater,
        first_seat=first_seat,
    )


def freeze(study: Study, chosen: Sequence[Found]) -> Mapping[str, Item]:
    """Create the items and their sources, and return the items by key."""
    shuffled = list(chosen)
    # One shuffled batch with one time, so that no id or time reveals what belongs together.
    random.Random(f"freeze/{study.draw}/{len(shuffled)}").shuffle(shuffled)
    now = timezone.now()
    rows = [
        Item(
            study=study,
            payload=f.payload,
            payload_sha256=payload_digest(f.payload),
            pair_sha256=pair_digest(f.payload),
            context=f.context,
            context_sha256=payload_digest(f.context),
            screen=f.screen,
            created_at=now,
        )
        for f in shuffled
    ]
    created = Item.objects.bulk_create(rows, batch_size=500)
    items = dict(zip([f.candidate.key for f in shuffled], created, strict=True))
    pairs = _pairs(study, shuffled)
    sources = [_source(items[f.candidate.key], f, pairs[f.candidate.pair]) for f in shuffled]
    ItemSource.objects.bulk_create(sources, batch_size=500)
    return items


def make_seats(study: Study, n: int) -> list[Rater]:
    """Create n open rater places, numbered from the study's last one."""
    last = max(study.raters.values_list("number", flat=True), default=0)
    rows = [Rater(study=study, number=number, label=f"R{number:02}") for number in range(last + 1, last + n + 1)]
    return Rater.objects.bulk_create(rows)


def write(study: Study, places: Sequence[Place], seats: Sequence[Rater]) -> None:
    """Store a plan whose keys are those of items."""
    pairs = dict(ItemSource.objects.filter(item__study=study).values_list("item_id", "pair"))
    rows = [row(place, seats[place.rater], pairs[int(place.key)]) for place in places]
    # So that no primary key reveals an order.
    random.Random(f"assignments/{study.draw}").shuffle(rows)
    Assignment.objects.bulk_create(rows, batch_size=500)


def row(place: Place, seat: Rater, pair: uuid.UUID) -> Assignment:
    arm: dict[str, Any] = {"layout": place.layout, "with_context": place.with_context, "marks": place.marks}
    return Assignment(
        item_id=int(place.key),
        rater=seat,
        position=place.position,
        occasion=place.occasion,
        session=place.session,
        slot=place.slot,
        pair=pair,
        **arm,
    )


def _source(item: Item, found: Found, pair: uuid.UUID) -> ItemSource:
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


def _pairs(study: Study, chosen: Sequence[Found]) -> dict[str, uuid.UUID]:
    """Return the stored code of each pair."""
    # Studies of earlier releases have random codes; versions that are added to them must get the same.
    pairs_by_step = dict(ItemSource.objects.filter(item__study=study).values_list("transition_id", "pair"))
    # Derived, so that versions added later get the same code; from the study's code, so that it means nothing in
    # another study.
    pairs = {f.candidate.pair: uuid.uuid5(study.code, f.candidate.pair) for f in chosen}
    chosen_steps = ((f.candidate.pair, f.origin.get("transition_id")) for f in chosen)
    return pairs | {pair: pairs_by_step[step] for pair, step in chosen_steps if step and step in pairs_by_step}


def _planned(protocol: StudyProtocol, chosen: Sequence[Found]) -> list[Planned]:
    ratings_per_item = protocol.ratings_per_item
    condition = crossover.conditions(protocol, chosen) if protocol.is_crossover else {}
    return [
        Planned(
            f.candidate.key, f.candidate.source, f.candidate.pair, ratings_per_item, condition.get(f.candidate.key, 0)
        )
        for f in chosen
    ]


def _versions(protocol: StudyProtocol, raters: int | None) -> int | None:
    """Return how many versions of one thing can be used if each must get all its ratings from different raters."""
    ratings_per_item = protocol.ratings_per_item
    # Every rater rates every item, and nobody may see two versions of one thing.
    if protocol.design == "crossed":
        return 1
    if raters and raters < ratings_per_item:
        raise PlanError(
            f"{raters} rater{' is' if raters == 1 else 's are'} too few for {ratings_per_item} ratings per item; {ratings_per_item} would work"
        )
    return raters // ratings_per_item if raters else None


def _seats(protocol: StudyProtocol, planned: Sequence[Planned], raters: int | None) -> int:
    if raters:
        return raters
    ratings_per_item, max_items = protocol.ratings_per_item, protocol.items_per_rater
    if protocol.is_crossover:
        return ratings_per_item
    # Rounded up: with at most this many items each, fewer raters could not give all ratings.
    needed_for_max = (
        -(-ratings_per_item * len(planned) // max_items) if max_items and protocol.design != "crossed" else 0
    )
    return max(planning.raters_needed(planned), ratings_per_item, needed_for_max)
