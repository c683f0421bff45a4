"""Which material of the outcome continues which material that went in, and which ones are new."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from simulation.checker.reading import families, words
from simulation.checker.reading.reading import View

# An input is taken up again where so much of its name stands in the output's, by so much more than any other.
_ENOUGH, _MARGIN, _TINY = 0.6, 0.15, 1e-9


def link(inputs: Sequence[View], outputs: Sequence[View], family: str) -> dict[int, int]:
    """Place of an output -> place of the input it continues. What is ambiguous is not linked."""
    links = _by_code(inputs, outputs)
    for called in (_whole, words.core):
        _by_name(inputs, outputs, links, called)
    if family in (families.MAKE, families.COMBINE):
        return links
    _by_words(inputs, outputs, links)
    if family not in (families.MOVE, families.SERIAL):
        _the_only_one(inputs, outputs, links)
    return links


def replaces(output: View) -> str:
    return _text(output.raw.get("replaces")) or output.barcode


def parents(output: View) -> tuple[str, ...] | None:
    """The barcodes it says it came from; None if it says nothing."""
    written = output.raw.get("derived_from")
    if not isinstance(written, list | tuple) or not all(isinstance(code, str) for code in written):
        return None
    return tuple(written)


def _by_code(inputs: Sequence[View], outputs: Sequence[View]) -> dict[int, int]:
    places = {view.barcode: place for place, view in enumerate(inputs) if view.barcode}
    links: dict[int, int] = {}
    for place, output in enumerate(outputs):
        at = places.get(replaces(output)) if replaces(output) else None
        if at is not None and at not in links.values():
            links[place] = at
    return links


def _whole(name: str) -> tuple[str, ...]:
    return words.cut(name)


def _by_name(
    inputs: Sequence[View],
    outputs: Sequence[View],
    links: dict[int, int],
    called: Callable[[str], tuple[str, ...]],
) -> None:
    """Same name, first in full, then apart from words like residual; of several, the one in the same container."""
    named: dict[tuple[str, ...], list[int]] = {}
    for i, output in _open(outputs, links):
        named.setdefault(called(output.name), []).append(i)
    cores = Counter(called(view.name) for view in inputs)
    for place, source in enumerate(inputs):
        core = called(source.name)
        if place in links.values() or not core:
            continue
        same = [i for i in named.get(core, ()) if i not in links]
        if len(same) > 1 or cores[core] > 1:
            twins = [view for i, view in enumerate(inputs) if i != place and called(view.name) == core]
            same = [
                i
                for i in same
                if _same_vessel(outputs[i], source) and not any(_same_vessel(outputs[i], t) for t in twins)
            ]
        if len(same) == 1 and not (source.unlimited and _is_portion(outputs[same[0]], source)):
            links[same[0]] = place


def _by_words(inputs: Sequence[View], outputs: Sequence[View], links: dict[int, int]) -> None:
    scores: dict[tuple[int, int], float] = {}
    taken = set(links.values())
    free = [(j, source) for j, source in enumerate(inputs) if j not in taken and not source.unlimited]
    for i, output in _open(outputs, links):
        for j, source in free:
            if (score := _score(output, source)) >= _ENOUGH:
                scores[i, j] = score
    by_output, by_source = _best(scores, 0), _best(scores, 1)
    for (i, j), score in scores.items():
        if (
            score + _TINY >= max(by_output[i][0], by_source[j][0])
            and score >= max(by_output[i][1], by_source[j][1]) + _MARGIN
        ):
            links[i] = j


def _best(scores: dict[tuple[int, int], float], side: int) -> dict[int, tuple[float, float]]:
    """The best and the second-best score of every output (side 0) or input (side 1)."""
    found: dict[int, tuple[float, float]] = {}
    for pair, score in scores.items():
        first, second = found.get(pair[side], (-9.0, -9.0))
        found[pair[side]] = (max(first, score), max(second, min(first, score)))
    return found


def _the_only_one(inputs: Sequence[View], outputs: Sequence[View], links: dict[int, int]) -> None:
    """One limited input and one output are left over: they belong together."""
    left = [j for j, view in enumerate(inputs) if j not in links.values() and not view.unlimited and not view.supply]
    free = [i for i, view in _open(outputs, links) if not _NEW & set(view.words)]
    if len(left) == 1 and len(free) == 1:
        links[free[0]] = left[0]


_NEW = words.PRODUCT_WORDS - {"diluted", "dilute", "washed", "mixed", "lysate", "pellet", "extract", "product"}


def _score(output: View, source: View) -> float:
    """How much of the input's name stands in the output's, a little more in the same container, less for a product."""
    theirs = set(words.core(source.name)) - {"empty"}
    if not theirs:
        return 0.0
    covered = len(theirs & set(output.words)) / len(theirs)
    made = _NEW & (set(output.words) - set(source.words))
    return covered + (0.2 if _same_vessel(output, source) else 0.0) - (1.0 if made else 0.0)


def _same_vessel(output: View, source: View) -> bool:
    if output.container and source.container:
        return output.container.strip().lower() == source.container.strip().lower()
    both = output.capacity and source.capacity
    return bool(both and output.capacity and source.capacity and output.capacity.value == source.capacity.value)


def _is_portion(output: View, source: View) -> bool:
    """A portion out of an unlimited supply may well bear its name."""
    if output.unlimited or output.gone:
        return False
    if (output.container or output.capacity) and not _same_vessel(output, source):
        return True
    both = output.volume is not None and source.volume is not None
    return bool(both and output.volume and source.volume and output.volume.value * 2 < source.volume.value)


def _open(outputs: Sequence[View], links: dict[int, int]) -> Iterable[tuple[int, View]]:
    return [(place, view) for place, view in enumerate(outputs) if place not in links]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
