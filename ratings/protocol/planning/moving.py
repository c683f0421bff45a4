"""Move unrated items to raters who joined late, without changing the order of anybody else's items."""

import itertools
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ratings.protocol.planning.dealing import Hand, Reading
from ratings.protocol.planning.nouns import Planned

CHOICE = 40  # the best of 40 is taken: comparing thousands for every move is slow and no fairer


class Move(NamedTuple):
    """One item that changes its rater."""

    item: Planned
    giver: int
    taker: int


def even_out(
    newcomers: Sequence[int],
    hands: Mapping[int, Hand],
    waiting: Mapping[int, Sequence[Planned]],
    readers: Mapping[str, Iterable[int]],
    rng: random.Random,
) -> list[Move]:
    """Return moves of items nobody has seen, one at a time from the rater with most unrated items to the newcomer with fewest.

    It ends when no newcomer can take anything from a rater with at least two more unrated items. Of the items that can be moved, it prefers
    those that the newcomer would share with the raters they share least with.
    """
    # Shuffled, so that the moved items are not always those at the start of a rater's order.
    movable = {rater: rng.sample(items, len(items)) for rater, items in waiting.items() if rater not in newcomers}
    shared = Reading(readers)
    moves = []
    while move := _next(newcomers, hands, movable, shared):
        item, giver, taker = move
        movable[giver].remove(item)
        hands[giver].waiting -= 1
        hands[taker].take(item)
        shared.remove(item.key, giver)
        shared.add(item.key, taker)
        moves.append(move)
    return moves


def _next(
    newcomers: Sequence[int], hands: Mapping[int, Hand], stock: Mapping[int, list[Planned]], reading: Reading
) -> Move | None:
    for taker in sorted(newcomers, key=lambda rater: hands[rater].waiting):
        for giver in sorted(stock, key=lambda rater: -hands[rater].waiting):
            # Moving an item between raters who differ by one only reverses their difference, and would never end.
            if hands[giver].waiting - hands[taker].waiting < 2:
                break
            eligible = (item for item in stock[giver] if hands[taker].may_have(item))
            if compared := list(itertools.islice(eligible, CHOICE)):
                return Move(min(compared, key=lambda item: reading.met(item.key, taker)), giver, taker)
    return None
