"""The complete plan of a study: who rates what, in which order and display arm, and which items are repeated."""

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from ratings.protocol.planning.arms import arm_of_seat, arms_by_item
from ratings.protocol.planning.dealing import deal, raters_needed
from ratings.protocol.planning.nouns import FIRST, Arm, Matrix, Place, PlanError, Planned, Row, Source
from ratings.protocol.planning.ordering import lay_out


def assign(
    items: Sequence[Planned],
    raters: int,
    seed: int,
    *,
    design: str = "balanced",
    arms: Sequence[Arm] = (Arm(),),
    by: str = "rater",
    repeats: float = 0.0,
    distance: int = 10,
    most: int | None = None,
    first_seat: int = 1,
) -> list[Place]:
    """Return the planned assignments: exactly `needed` raters per item, never two versions of a pair for one rater, loads at most one apart.

    Crossed: every rater rates every item. Pool: none, because items are claimed later. `most` is the maximum per rater, `first_seat` the number of
    the first rater. Raises PlanError, with a number that would work, if the plan is impossible.
    """
    _check(items, raters, design, most)
    if design == "pool":
        return []
    # A generator of its own, seeded with text: adding a draw elsewhere must not change this plan.
    rng = random.Random(f"assign/{seed}")
    items_by_rater: dict[int, list[Planned]] = {rater: [] for rater in range(raters)}
    slots: dict[tuple[int, str], int] = {}
    next_slot: Counter[str] = Counter()
    for item, rater in deal(items, raters, rng):
        items_by_rater[rater].append(item)
        next_slot[item.key] += 1
        # A slot is the number of an item's rating; the database allows one live assignment per slot.
        slots[rater, item.key] = next_slot[item.key]
    arms_by_item = _shown(items_by_rater, arms, by, seed, first_seat, rng)
    places = []
    for rater, items_of_rater in items_by_rater.items():
        for position, (key, occasion) in enumerate(lay_out((), items_of_rater, (), repeats, distance, rng), start=1):
            # A repeat never counts as one of the item's ratings.
            slot = slots[rater, key] if occasion == FIRST else None
            places.append(Place(rater, key, position, occasion, slot, *arms_by_item[rater, key]))
    _check_repeats(items_by_rater, repeats, distance)
    return places


def matrix(items: Iterable[Planned], places: Iterable[Place], raters: int) -> Matrix:
    """Return how many items of each source every rater gets."""
    source_of_item = {item.key: item.source for item in items}
    sources = tuple(sorted(set(source_of_item.values())))
    firsts: dict[int, list[Place]] = defaultdict(list)
    repeats: Counter[int] = Counter()
    for place in places:
        if place.occasion == FIRST:
            firsts[place.rater].append(place)
        else:
            repeats[place.rater] += 1
    rows = tuple(_row(rater, firsts[rater], source_of_item, sources, repeats[rater]) for rater in range(raters))
    return Matrix(sources, rows, _shared(firsts, raters))


def _row(
    rater: int, own: Sequence[Place], source: Mapping[str, Source], sources: Sequence[Source], repeats: int
) -> Row:
    counts = Counter(source[place.key] for place in own)
    arms = sorted({Arm(place.layout, place.with_context, place.marks) for place in own})
    return Row(rater, {name: counts[name] for name in sources}, len(own), repeats, tuple(arms))


def _shared(firsts: Mapping[int, Sequence[Place]], raters: int) -> tuple[int, int]:
    keys = [{place.key for place in firsts[rater]} for rater in range(raters)]
    shared = [len(keys[a] & keys[b]) for a in range(raters) for b in range(a)]
    return min(shared, default=0), max(shared, default=0)


def _check(items: Sequence[Planned], raters: int, design: str, most: int | None) -> None:
    if raters < (min_raters := raters_needed(items)):
        raise PlanError(f"{_many(raters)} too few: no rater may rate two versions of one item; {min_raters} would work")
    needed = max((item.needed for item in items), default=0)
    if design == "crossed" and raters != needed:
        s, verb = ("", "makes") if raters == 1 else ("s", "make")
        raise PlanError(
            f"crossed: every rater rates every item, so {raters} rater{s} {verb} {raters} rating{s} per item"
        )
    total = sum(item.needed for item in items)
    if most is not None and total > most * raters:
        sufficient = -(-total // most)  # rounded up: the smallest number of raters that is enough
        raters_text = f"{raters} rater{'s' * (raters != 1)}"
        raise PlanError(f"{total} ratings by {raters_text} are more than {most} each; {sufficient} raters would work")


def _many(raters: int) -> str:
    return "1 rater is" if raters == 1 else f"{raters} raters are"


def _shown(
    given: Mapping[int, Sequence[Planned]], arms: Sequence[Arm], by: str, seed: int, first_seat: int, rng: random.Random
) -> Mapping[tuple[int, str], Arm]:
    if by == "item":
        return arms_by_item(given, arms, rng)
    arm_of = {rater: arm_of_seat(arms, seed, first_seat + rater) for rater in given}
    return {(rater, item.key): arm_of[rater] for rater, items in given.items() for item in items}


def _check_repeats(given: Mapping[int, Sequence[Planned]], repeats: float, distance: int) -> None:
    longest = max((len(own) for own in given.values()), default=0)
    # The longest share decides: if even that has no room, the protocol's repeats would silently be missing.
    if repeats and longest and longest <= distance:
        raise PlanError(
            f"repeats {distance} items apart need raters with more than {distance} items, and no rater has more than "
            f"{longest}: choose a gap of at most {longest - 1}, fewer raters or more items"
        )
