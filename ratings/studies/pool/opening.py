"""What opening a study makes: items chosen from the pool and frozen blinded, seats, and the work dealt out to them."""

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
    """How many items and seats a study was given, and how many items it could have but for an unblinded study.

    `shown`: of how many items an unblinded study of the other kind shows the episode; `alike`: cases of a crossover that are
    left out because both sources gave the identical outcome.
    """

    items: int
    seats: int
    left_out: int = 0
    shown: int = 0
    alike: Alike = Alike()


class Preview(NamedTuple):
    """What opening would make: items, seats, ratings wanted in all, and who would get how many of which source.

    In a pool study the rows of the matrix are empty: nothing is dealt out before raters come. `places` hold raters 0, 1,
    ... for R01, R02, ..., with the keys of `planned`.
    """

    items: int
    seats: int
    ratings: int
    matrix: Matrix
    planned: tuple[Planned, ...] = ()
    places: tuple[Place, ...] = ()
    origins: Mapping[str, Mapping[str, Any]] = {}  # by key: what its ItemSource would say of it
    alike: Alike = Alike()


def fill(study: Study, protocol: StudyProtocol, raters: int | None) -> Filled:
    """Everything an empty study needs; as few seats as will do unless `raters` says how many. Part of a transaction."""
    seen = pool.look(protocol, study)
    chosen = _choose_usable(seen, protocol, raters)
    pool.settle(study, chosen, seen.held)
    items = freeze(study, chosen)
    planned = [plan._replace(key=str(items[plan.key].pk)) for plan in _planned(protocol, chosen)]
    wanted = _seats(protocol, planned, raters)
    planned = crossover.under_their_pairs(planned) if protocol.is_crossover else planned
    places = assign(protocol, study.draw, planned, wanted)
    write(study, places, make_seats(study, wanted))
    left_out, shown = pool.count_left_out(seen.left_out, protocol), len(pool.separate_shown(chosen, protocol.kind))
    return Filled(len(items), wanted, left_out, shown, crossover.count_alike(seen.usable, protocol))


def preview(protocol: StudyProtocol, study: Study | None = None, raters: int | None = None) -> Preview:
    """What `fill` would do now; PlanError if it cannot. Writes nothing."""
    seen = pool.look(protocol, study)
    chosen = _choose_usable(seen, protocol, raters or protocol.raters)
    planned = _planned(protocol, chosen)
    wanted = _seats(protocol, planned, raters or protocol.raters)
    places = assign(protocol, protocol.seed, planned, wanted)
    ratings = sum(plan.needed for plan in planned)
    matrix = planning.matrix(planned, places, wanted)
    return Preview(len(planned), wanted, ratings, matrix, tuple(planned), tuple(places),
                   {found.candidate.key: found.origin for found in chosen},
                   crossover.count_alike(seen.usable, protocol))  # fmt: skip


def _choose_usable(seen: pool.Look, protocol: StudyProtocol, raters: int | None) -> list[Found]:
    """Choose among what is usable. Where that is too little, PlanError says also how much is left out, and why."""
    left_out = pool.count_left_out(seen.left_out, protocol)
    reason = f"{counted(left_out, 'item')} left out, because they or versions of them stand in an unblinded study"
    try:
        chosen = choose(seen.usable, protocol, raters)
    except PlanError as error:
        raise PlanError(f"{error}; {reason}" if left_out else str(error)) from error
    if left_out and not chosen:
        raise PlanError(f"no item remains: {reason}")
    return chosen


def choose(every: Sequence[Found], protocol: StudyProtocol, raters: int | None) -> list[Found]:
    """So many of each source as the study asks for, and every item that was imported into it."""
    if protocol.is_crossover:
        return crossover.choose(every, protocol)
    own = [found for found in every if found.origin.get("imported_id")]
    known = {found.candidate.content for found in own}
    found = {f.candidate.key: f for f in every if not f.origin.get("imported_id") and f.candidate.content not in known}
    wanted = {(source.cast, source.perturbation): source.count for source in protocol.sources}
    candidates = [f.candidate for f in found.values()]
    chosen = planning.choose(candidates, wanted, protocol.seed, _versions(protocol, raters))
    return [found[candidate.key] for candidate in chosen] + own


def assign(
    protocol: StudyProtocol, seed: int, planned: Sequence[Planned], seats: int, first_seat: int = 1
) -> list[Place]:
    """The plan as the study's document wants it."""
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
    """Items and their sources, made in one shuffled batch so that no id or time tells what belongs together."""
    order = list(chosen)
    random.Random(f"freeze/{study.draw}/{len(order)}").shuffle(order)
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
        for f in order
    ]
    made = Item.objects.bulk_create(rows, batch_size=500)
    items = dict(zip([f.candidate.key for f in order], made, strict=True))
    pairs = _pairs(study, order)
    sources = [_source(items[f.candidate.key], f, pairs[f.candidate.pair]) for f in order]
    ItemSource.objects.bulk_create(sources, batch_size=500)
    return items


def make_seats(study: Study, n: int) -> list[Rater]:
    """Free seats, nobody holds them yet, numbered on from the last there is."""
    last = max(study.raters.values_list("number", flat=True), default=0)
    rows = [Rater(study=study, number=number, label=f"R{number:02}") for number in range(last + 1, last + n + 1)]
    return Rater.objects.bulk_create(rows)


def write(study: Study, places: Sequence[Place], seats: Sequence[Rater]) -> None:
    """The rows of a plan whose keys are those of items; shuffled, so that no id tells an order."""
    pairs = dict(ItemSource.objects.filter(item__study=study).values_list("item_id", "pair"))
    rows = [row(place, seats[place.rater], pairs[int(place.key)]) for place in places]
    random.Random(f"assignments/{study.draw}").shuffle(rows)
    Assignment.objects.bulk_create(rows, batch_size=500)


def row(place: Place, seat: Rater, pair: uuid.UUID) -> Assignment:
    shown: dict[str, Any] = {"layout": place.layout, "with_context": place.with_context, "marks": place.marks}
    return Assignment(
        item_id=int(place.key),
        rater=seat,
        position=place.position,
        occasion=place.occasion,
        session=place.session,
        slot=place.slot,
        pair=pair,
        **shown,
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
    """The same for versions that come later, and meaning nothing elsewhere. Studies of earlier releases drew theirs."""
    known = dict(ItemSource.objects.filter(item__study=study).values_list("transition_id", "pair"))
    pairs = {f.candidate.pair: uuid.uuid5(study.code, f.candidate.pair) for f in chosen}
    steps = ((f.candidate.pair, f.origin.get("transition_id")) for f in chosen)
    return pairs | {pair: known[step] for pair, step in steps if step and step in known}


def _planned(protocol: StudyProtocol, chosen: Sequence[Found]) -> list[Planned]:
    each = protocol.ratings_per_item
    condition = crossover.conditions(protocol, chosen) if protocol.is_crossover else {}
    return [
        Planned(f.candidate.key, f.candidate.source, f.candidate.pair, each, condition.get(f.candidate.key, 0))
        for f in chosen
    ]


def _versions(protocol: StudyProtocol, raters: int | None) -> int | None:
    """How many versions of one thing can be used, when each must have all its ratings from different people."""
    each = protocol.ratings_per_item
    if protocol.design == "crossed":
        return 1
    if raters and raters < each:
        raise PlanError(
            f"{raters} rater{' is' if raters == 1 else 's are'} too few for {each} ratings per item; {each} would work"
        )
    return raters // each if raters else None


def _seats(protocol: StudyProtocol, planned: Sequence[Planned], raters: int | None) -> int:
    if raters:
        return raters
    each, most = protocol.ratings_per_item, protocol.items_per_rater
    if protocol.is_crossover:
        return each
    for_most = -(-each * len(planned) // most) if most and protocol.design != "crossed" else 0
    return max(planning.raters_needed(planned), each, for_most)
