"""Work that waits, moved to raters who came late; nobody else's work is touched."""

import itertools
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ratings.protocol.planning.dealing import Hand, Reading
from ratings.protocol.planning.nouns import Planned

CHOICE = 40  # of so many the best is taken: a look at all of thousands for every move would be no fairer


class Move(NamedTuple):
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
    """Items that nobody has seen, one by one from whoever has most left to whichever newcomer has least.

    Until no newcomer may have anything more from one who has at least two items more to do. Of what may be moved comes
    first what the newcomer would share with those they share least with.
    """
    stock = {rater: rng.sample(items, len(items)) for rater, items in waiting.items() if rater not in newcomers}
    reading = Reading(readers)
    moves = []
    while move := _next(newcomers, hands, stock, reading):
        item, giver, taker = move
        stock[giver].remove(item)
        hands[giver].waiting -= 1
        hands[taker].take(item)
        reading.remove(item.key, giver)
        reading.add(item.key, taker)
        moves.append(move)
    return moves


def _next(
    newcomers: Sequence[int], hands: Mapping[int, Hand], stock: Mapping[int, list[Planned]], reading: Reading
) -> Move | None:
    for taker in sorted(newcomers, key=lambda rater: hands[rater].waiting):
        for giver in sorted(stock, key=lambda rater: -hands[rater].waiting):
            if hands[giver].waiting - hands[taker].waiting < 2:
                break
            free = (item for item in stock[giver] if hands[taker].may_have(item))
            if some := list(itertools.islice(free, CHOICE)):
                return Move(min(some, key=lambda item: reading.met(item.key, taker)), giver, taker)
    return None
