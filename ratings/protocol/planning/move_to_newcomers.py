"""Move unrated items to raters who joined late, without changing the order of anybody else's items."""

import itertools
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ratings.protocol.planning.balance_loads import SharedItems, Workload
from ratings.protocol.planning.plan_types import PlannedItem

MAX_COMPARED = 40  # the best of 40 is taken: comparing thousands for every move is slow and no fairer


class Move(NamedTuple):
    """One item that changes its rater."""

    item: PlannedItem
    giver: int
    taker: int


def move_to_newcomers(
    newcomers: Sequence[int],
    workloads: Mapping[int, Workload],
    unrated: Mapping[int, Sequence[PlannedItem]],
    raters_of_item: Mapping[str, Iterable[int]],
    rng: random.Random,
) -> list[Move]:
    """Return moves of items nobody has seen, one at a time from the rater with most unrated items to the newcomer
    with fewest.

    Moving ends when no newcomer can take anything from a rater with at least two more unrated items. Among the items
    that can be moved, those are preferred whose raters share the fewest items with the newcomer.
    """
    # Shuffled, so that the moved items are not always those at the start of a rater's order.
    movable = {rater: rng.sample(items, len(items)) for rater, items in unrated.items() if rater not in newcomers}
    shared = SharedItems(raters_of_item)
    moves = []
    while move := _find_next_move(newcomers, workloads, movable, shared):
        item, giver, taker = move
        movable[giver].remove(item)
        workloads[giver].unrated -= 1
        workloads[taker].add_item(item)
        shared.remove_rater(item.key, giver)
        shared.add_rater(item.key, taker)
        moves.append(move)
    return moves


def _find_next_move(
    newcomers: Sequence[int],
    workloads: Mapping[int, Workload],
    movable: Mapping[int, list[PlannedItem]],
    shared: SharedItems,
) -> Move | None:
    for taker in sorted(newcomers, key=lambda rater: workloads[rater].unrated):
        for giver in sorted(movable, key=lambda rater: -workloads[rater].unrated):
            # Moving an item between raters who differ by one only reverses their difference, and would never end.
            if workloads[giver].unrated - workloads[taker].unrated < 2:
                break
            eligible = (item for item in movable[giver] if workloads[taker].can_take(item))
            if compared := list(itertools.islice(eligible, MAX_COMPARED)):
                return Move(min(compared, key=lambda item: shared.count_shared(item.key, taker)), giver, taker)
    return None
