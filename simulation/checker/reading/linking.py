"""Link each output to the input that it continues. Outputs without a link are new materials or ambiguous."""

from collections import Counter
from collections.abc import Callable, Sequence

from simulation.checker.reading import words
from simulation.checker.reading.properties import MaterialView

# Minimum share of an input's name words in an output's name, minimum lead over the next candidate, float tolerance.
_MIN_SCORE, _MIN_LEAD, _EPSILON = 0.6, 0.15, 1e-9
# Words for a new material. The exceptions describe a changed input as often as a new output.
_NEW_MATERIAL_WORDS = words.PRODUCT_WORDS - words.word_set("diluted dilute washed mixed lysate pellet extract product")
Views = Sequence[MaterialView]
SplitName = Callable[[str], tuple[str, ...]]


def link_materials(inputs: Views, outputs: Views, family: str) -> dict[int, int]:
    """Return {index of an output: index of the input that it continues}. Ambiguous outputs are not linked."""
    # From certain to uncertain: barcode, full name, name without words like residual, then shared words.
    input_indices = {view.barcode: index for index, view in enumerate(inputs) if view.barcode}
    links: dict[int, int] = {}
    for index, output in enumerate(outputs):
        source = input_indices.get(replaced_barcode(output)) if replaced_barcode(output) else None
        if source is not None and source not in links.values():
            links[index] = source
    for name_words in (words.tokenize, words.core_words):
        _link_by_name(inputs, outputs, links, name_words)
    # The names of products of these actions have words of several inputs.
    if family in (words.MAKE, words.COMBINE):
        return links
    _link_by_words(inputs, outputs, links)
    if family not in (words.MOVE, words.SERIAL):
        _link_by_own_words(inputs, outputs, links)
    # Moves and series create new materials, so the last pair need not belong together.
    if family not in (words.MOVE, words.SERIAL):
        linked = set(links.values())
        limited = [j for j, view in enumerate(inputs) if not view.is_unlimited and not view.is_empty_vessel]
        open_inputs = [j for j in limited if j not in linked]
        unlinked = _list_unlinked(outputs, links)
        open_outputs = [i for i, view in unlinked if not _NEW_MATERIAL_WORDS & set(view.name_words)]
        # A waste is no continuation if something else is left.
        open_outputs = [i for i in open_outputs if not outputs[i].is_used_up] or open_outputs
        if len(open_inputs) == 1 and len(open_outputs) == 1:
            links[open_outputs[0]] = open_inputs[0]
    return links


def replaced_barcode(output: MaterialView) -> str:
    replaced = output.raw.get("replaces")
    return replaced if isinstance(replaced, str) and replaced else output.barcode


def parent_barcodes(output: MaterialView) -> tuple[str, ...] | None:
    """Return the barcodes that the output names as its origin, or None if it names none."""
    origins = output.raw.get("derived_from")
    if not isinstance(origins, list | tuple) or not all(isinstance(code, str) for code in origins):
        return None
    return tuple(origins)


def _link_by_name(inputs: Views, outputs: Views, links: dict[int, int], name_words: SplitName) -> None:
    """Link outputs to inputs of the same name. If several have that name, the container must be the same too."""
    outputs_by_name: dict[tuple[str, ...], list[int]] = {}
    for i, output in _list_unlinked(outputs, links):
        outputs_by_name.setdefault(name_words(output.name), []).append(i)
    cores = Counter(name_words(view.name) for view in inputs)
    for index, source in enumerate(inputs):
        name = name_words(source.name)
        if index in links.values() or not name:
            continue
        candidates = [i for i in outputs_by_name.get(name, ()) if i not in links]
        if len(candidates) > 1 or cores[name] > 1:
            # With several inputs of one name, the container decides, and only if it fits no other of them.
            twins = [view for i, view in enumerate(inputs) if i != index and name_words(view.name) == name]
            candidates = [
                i
                for i in candidates
                if _has_same_vessel(outputs[i], source) and not any(_has_same_vessel(outputs[i], t) for t in twins)
            ]
        # A portion of an unlimited supply may have the supply's name, but it is not the supply.
        if len(candidates) == 1 and not (source.is_unlimited and _is_portion(outputs[candidates[0]], source)):
            links[candidates[0]] = index


def _link_by_words(inputs: Views, outputs: Views, links: dict[int, int]) -> None:
    scores: dict[tuple[int, int], float] = {}
    linked = set(links.values())
    free = [(j, source) for j, source in enumerate(inputs) if j not in linked and not source.is_unlimited]
    for i, output in _list_unlinked(outputs, links):
        for j, source in free:
            if (score := _score_names(output, source)) >= _MIN_SCORE:
                scores[i, j] = score
    by_output, by_source = _find_best_scores(scores, 0), _find_best_scores(scores, 1)
    for (i, j), score in scores.items():
        best, second = (max(by_output[i][rank], by_source[j][rank]) for rank in (0, 1))
        # Each must be the other's best match, and clearly ahead of the second best on both sides.
        if score + _EPSILON >= best and score >= second + _MIN_LEAD:
            links[i] = j


def _link_by_own_words(inputs: Views, outputs: Views, links: dict[int, int]) -> None:
    """Link outputs that have the words of only one of several inputs: "Podzol, dried" is the podzol, not the heath."""
    linked = set(links.values())
    free = {j: set(v.name_words) for j, v in enumerate(inputs) if j not in linked and not v.is_unlimited}
    candidates = {
        i: set(view.name_words)
        for i, view in _list_unlinked(outputs, links)
        if not _NEW_MATERIAL_WORDS & set(view.name_words)
    }
    if len(free) < 2 or len(free) != len(candidates):
        return
    pairs = {}
    for j, name in free.items():
        own = name - set().union(*(other for k, other in free.items() if k != j))
        matches = [i for i, output_name in candidates.items() if own & output_name]
        if len(matches) != 1:
            return
        pairs[matches[0]] = j
    # All or none: a pair that fits beside one that does not may be a coincidence.
    if len(pairs) == len(free):
        links.update(pairs)


def _find_best_scores(scores: dict[tuple[int, int], float], side: int) -> dict[int, tuple[float, float]]:
    """Return {index: (best, second-best score)} of every output (side 0) or input (side 1) in these scores."""
    best: dict[int, tuple[float, float]] = {}
    for pair, score in scores.items():
        first, second = best.get(pair[side], (-9.0, -9.0))
        best[pair[side]] = (max(first, score), max(second, min(first, score)))
    return best


def _score_names(output: MaterialView, source: MaterialView) -> float:
    """Return the share of common name words, plus 0.2 for the same container, less 1 for words for a new material."""
    source_words = set(words.core_words(source.name)) - {"empty"}
    if not source_words:
        return 0.0
    common = source_words & set(output.name_words)
    share = len(common) / len(source_words)
    if words.REMAINDER & set(output.name_words) and len(common) > 1:
        # "Primer mix, remainder" of "Primer mix, 10 µM each, well A1 of a source plate": a remainder has the shorter name.
        core = set(words.core_words(output.name))
        share = max(share, len(common & core) / max(1, len(core)) if len(common & core) > 1 else 0)
    product_words = _NEW_MATERIAL_WORDS & (set(output.name_words) - set(source.name_words))
    return share + (0.2 if _has_same_vessel(output, source) else 0.0) - (1.0 if product_words else 0.0)


def _has_same_vessel(output: MaterialView, source: MaterialView) -> bool:
    if output.container and source.container:
        return output.container.strip().lower() == source.container.strip().lower()
    return bool(output.capacity and source.capacity and output.capacity.value == source.capacity.value)


def _is_portion(output: MaterialView, source: MaterialView) -> bool:
    """Return whether an output with the name of an unlimited supply is only a portion of that supply."""
    if output.is_unlimited or output.is_used_up:
        return False
    if (output.container or output.capacity) and not _has_same_vessel(output, source):
        return True
    # Less than half: the supply itself would not have shrunk.
    return bool(output.volume and source.volume and output.volume.value * 2 < source.volume.value)


def _list_unlinked(outputs: Views, links: dict[int, int]) -> list[tuple[int, MaterialView]]:
    return [(index, view) for index, view in enumerate(outputs) if index not in links]
