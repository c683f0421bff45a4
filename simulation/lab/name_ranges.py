"""Fold names that differ in one number: "Culture well 1", "Culture well 2" become "Culture wells 1 and 2"."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

MIN_RANGE = 3  # numbers in a row that are written as a range; two are written "13 and 14"
# Words that are counted, with their plurals. After any other word a number is folded only at the end of the name, because
# it may be an amount: "Buffer 10 mM".
_PLURALS = {
    **{word: f"{word}s" for word in (
        "aliquot", "bead", "bottle", "cell", "chip", "clip", "coverslip", "crucible", "culture", "cuvette", "electrode",
        "embryo", "field", "flask", "fraction", "gel", "isolate", "lane", "pellet", "plate", "portion", "replicate", "sample", "slide",
        "spot", "standard", "tip", "tube", "vial", "well",
    )},
    "batch": "batches", "colony": "colonies", "dish": "dishes", "fish": "fish", "larva": "larvae", "species": "species",
}  # fmt: skip
# The last number that is a word of its own: not "0.5", "10x" or "-80", and not "07", whose zero a range would lose.
_NUMBERED = re.compile(r"(.*[^\W\d_]) ([1-9][0-9]{0,5})((?:,? [^0-9]*)?)", re.DOTALL)
_Frame = tuple[str, str]  # the text before and after the number


class FoldedName(NamedTuple):
    """A name, and the positions of the names that it stands for."""

    name: str
    positions: tuple[int, ...]


def fold_names(names: Iterable[str]) -> list[str]:
    """Return the names, with those that differ in one number as one name where the first of them was.

    Names of which one occurs twice are not folded, because the number of things would be lost.
    """
    return [folded.name for folded in group_names(names)]


def group_names(names: Iterable[str]) -> list[FoldedName]:
    """Return what `fold_names` returns, with the positions of the given names."""
    listed = [(name, _split_number(name)) for name in names]
    count_by_name = Counter(name for name, _ in listed)
    positions: dict[_Frame, list[int]] = {}
    repeated: set[_Frame] = set()
    for position, (name, split) in enumerate(listed):
        if split is not None:
            positions.setdefault(split[0], []).append(position)
            if count_by_name[name] > 1:
                repeated.add(split[0])
    folded: list[FoldedName] = []
    for position, (name, split) in enumerate(listed):
        if split is None or split[0] in repeated or len(positions[split[0]]) == 1:
            folded.append(FoldedName(name, (position,)))
        elif positions[split[0]][0] == position:
            members = positions[split[0]]
            numbers = [numbered[1] for place in members if (numbered := listed[place][1])]
            folded.append(FoldedName(_format_names(split[0], numbers), tuple(members)))
    return folded


def format_count(number: int, noun: str) -> str:
    """Return "1 portion" or "3 portions"."""
    return f"{number} {noun if number == 1 else _PLURALS.get(noun, f'{noun}s')}"


def format_numbers(numbers: Iterable[int]) -> str:
    """Return the numbers in order, each once, with ranges: "1, 3 and 5 to 8"."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    parts: list[str] = []
    for run in runs:
        parts += [f"{run[0]} to {run[-1]}"] if len(run) >= MIN_RANGE else [str(number) for number in run]
    return " and ".join(filter(None, (", ".join(parts[:-1]), "".join(parts[-1:]))))


def _split_number(name: str) -> tuple[_Frame, int] | None:
    match = _NUMBERED.fullmatch(name)
    if match is None or (match[3] and match[1].rpartition(" ")[2].lower() not in _PLURALS):
        return None
    return (match[1], match[3]), int(match[2])


def _format_names(frame: _Frame, numbers: list[int]) -> str:
    start, space, word = frame[0].rpartition(" ")
    plural = _PLURALS.get(word.lower(), word)
    # The first letter stays: "Well 1" begins a name.
    return f"{start}{space}{word[:1]}{plural[1:]} {format_numbers(numbers)}{frame[1]}"
