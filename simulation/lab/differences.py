"""Find the visible differences between two outcomes of the same action."""

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from simulation.lab.materials import NewMaterial
from simulation.lab.outcomes import Observation, Outcome

# Lineage is not compared, because raters do not see it.
_MATERIAL_FIELDS = ("name", "properties", "available_for_use", "material_type", "environmental_condition")

_TRAILING_ZEROS = re.compile(r"(?<![\d.])(\d+)(?:\.0+|(\.\d*?[1-9])0+)(?!\d|\.\d)")  # after the decimal point
_GAP = re.compile(r"(?<=\d)[\s-](?=[^\W\d_]|[°%])")  # between a number and its unit
_LITRES = re.compile(r"(?<=\d)([uμmn]?)l\b")
_MICRO = re.compile(r"(?<=\d)u(?=[LgMm])")

Entry = Mapping[str, Any]
Key = Callable[[Entry], str]  # returns "" if the entry has no such key


class Difference(NamedTuple):
    """A path, and the value at that path in each outcome, or None if the outcome has no value there.

    Indices in the path are those in the `after` outcome, or in `before` for entries that `after` lacks.
    """

    path: str
    before: Any
    after: Any


class _Pair(NamedTuple):
    """Two corresponding entries, or None if a list has none. `position` is the index in the new, else the old list."""

    position: int
    old: Entry | None
    new: Entry | None


def find_differences(before: Outcome, after: Outcome) -> tuple[Difference, ...]:
    """Return every difference in success, reason for failure, materials and observations, in that order.

    Reasoning, lineage and hidden ledgers are ignored. So are the order of materials and of observations, spaces,
    equivalent code points of a character, the notation of a number with its unit (10.0 mL, 10mL), and capitals and
    dashes in the name of a property.
    """
    return (
        *_compare_values("success", before.success, after.success),
        *_compare_values("failure_reason", before.failure_reason, after.failure_reason),
        *_compare_lists(
            "new_materials",
            [_material_entry(draft) for draft in before.new_materials],
            [_material_entry(draft) for draft in after.new_materials],
            # From certain to uncertain: the same vessel, the same content, the same name.
            (lambda e: str(e["replaces"]), _full_text, lambda e: _normalise_text(e["name"])),
        ),
        *_compare_lists(
            "new_observations",
            [_observation_entry(seen) for seen in before.new_observations],
            [_observation_entry(seen) for seen in after.new_observations],
            (_full_text, lambda e: _normalise_text(e["description"])),
        ),
    )


def _material_entry(draft: NewMaterial) -> Entry:
    fields = draft.to_json()
    return {"replaces": draft.replaces, "shown": {name: fields[name] for name in _MATERIAL_FIELDS}, "name": draft.name}


def _observation_entry(seen: Observation) -> Entry:
    return {"shown": seen.to_json(), "description": seen.description}


def _full_text(entry: Entry) -> str:
    return json.dumps(entry["shown"], sort_keys=True, default=str)


def _compare_lists(name: str, old: Sequence[Entry], new: Sequence[Entry], keys: Sequence[Key]) -> Iterator[Difference]:
    for pair in _pair_entries(old, new, keys):
        path = f"{name}[{pair.position}]"
        if pair.old is None or pair.new is None:
            yield Difference(path, pair.old and pair.old["shown"], pair.new and pair.new["shown"])
        else:
            yield from _compare_values(path, pair.old["shown"], pair.new["shown"])


def _pair_entries(old: Sequence[Entry], new: Sequence[Entry], keys: Sequence[Key]) -> list[_Pair]:
    """Pair entries with the same first key, then the rest by the next key and so on, and finally by their order."""
    matches: dict[int, int] = {}
    free = list(range(len(old)))
    all_keys: list[Key] = [*keys, lambda entry: "any"]
    for key in all_keys:
        by_key: dict[str, list[int]] = {}
        for at in free:
            by_key.setdefault(key(old[at]), []).append(at)
        for at, entry in enumerate(new):
            if at not in matches and (word := key(entry)) and by_key.get(word):
                matches[at] = by_key[word].pop(0)
        # Entries that an earlier key has matched are not available to a weaker key.
        free = [at for at in free if at not in matches.values()]
    pairs = [_Pair(at, old[matches[at]] if at in matches else None, entry) for at, entry in enumerate(new)]
    return pairs + [_Pair(at, old[at], None) for at in free]


def _compare_values(path: str, old: Any, new: Any) -> Iterator[Difference]:
    """Yield the differences of two JSON values. Objects, and lists of equal length, are compared part by part."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        # A property that is only spelt differently must not appear as removed and added.
        spelt = _match_spelling(old, new)
        renamed_old = {spelt[key]: value for key, value in old.items()}
        for key in sorted({*renamed_old, *new}):
            yield from _compare_values(f"{path}.{key}", renamed_old.get(key), new.get(key))
    elif _is_list(old) and _is_list(new) and len(old) == len(new):
        for at, (old_item, new_item) in enumerate(zip(old, new, strict=True)):
            yield from _compare_values(f"{path}[{at}]", old_item, new_item)
    elif not _reads_same(old, new):
        yield Difference(path, old, new)


def _match_spelling(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, str]:
    """Return {name in `old`: its spelling in `new`}. Capitals, spaces and dashes may differ if this is unambiguous."""
    # Two new names that fold to the same text are ambiguous, so neither is matched to an old name.
    new_names = [_fold_key(key) for key in new if key not in old]
    free = {_fold_key(key): key for key in new if key not in old and new_names.count(_fold_key(key)) == 1}
    return {key: key if key in new else free.pop(_fold_key(key), key) for key in old}


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _reads_same(old: Any, new: Any) -> bool:
    """Return whether two values mean the same to a reader: 5 and "5", or 5 and 5.0, but not true and 1."""
    if isinstance(old, str | int | float) and isinstance(new, str | int | float):
        # True equals 1 in Python, but "true" and "1" differ on a page.
        both_numbers = not isinstance(old, str | bool) and not isinstance(new, str | bool)
        return (old == new) if both_numbers else _normalise_text(str(old)) == _normalise_text(str(new))
    return bool(old == new)


def _normalise_text(text: str) -> str:
    """Return the text in a uniform notation: 10.0 mL, 10mL, 10 ml and 10-mL all become 10mL."""
    # NFKC unifies the two codes of µ and full-width characters.
    text_nfkc = " ".join(unicodedata.normalize("NFKC", text).split())
    text_nfkc = _GAP.sub("", _TRAILING_ZEROS.sub(r"\1\2", text_nfkc))
    return _MICRO.sub("μ", _LITRES.sub(r"\1L", text_nfkc))


def _fold_key(key: str) -> str:
    return re.sub(r"[\s_-]+", " ", unicodedata.normalize("NFKC", key).casefold()).strip()
