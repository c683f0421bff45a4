"""Compare how often each text occurs in twins and in their originals: a text that only twins have gives them away."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from scipy.stats import binomtest, false_discovery_control

from simulation.twin_audit.pairs import ERROR_TYPES, ShownStep, TwinPair
from simulation.twin_audit.step_reading import iter_texts

FALSE_DISCOVERIES = 0.05  # expected share of listed texts that differ by chance (Benjamini and Hochberg, 1995)
# A rarer text finds less than one in fifty errors.
LARGEST_DIFFERENCE = 0.02
LARGEST_SHARE_ALONE = 0.01  # of twins in which a word may occur that no original has
ANY_PLACE = "any place"
_LEAST_CHANGES = 6  # with fewer, not even 6 of 6 in one direction is significant after the correction
_LONGEST = 60  # characters; longer texts are compared by their words alone
_WORD = re.compile(r"[^\W\d_]{2,}")


class TextDifference(NamedTuple):
    """A text, and the number of twins and originals in which it occurs. `gained`: only the twin of a pair has it."""

    error_type: str
    place: str
    text: str
    twins: int
    originals: int
    gained: int
    lost: int
    pairs: int
    p: float

    @property
    def is_in_twins_alone(self) -> bool:
        return not self.originals

    @property
    def difference(self) -> float:
        """The share of twins with the text minus the share of originals with it."""
        return (self.gained - self.lost) / self.pairs

    @property
    def is_within_aim(self) -> bool:
        # A number of an unusual form is what an obvious error is; a word that only twins have says nothing about science.
        is_word_alone = self.place == ANY_PLACE and self.is_in_twins_alone
        is_unique_word = is_word_alone and self.twins > LARGEST_SHARE_ALONE * self.pairs
        return not is_unique_word and abs(self.difference) <= LARGEST_DIFFERENCE


def find_text_differences(pairs: Sequence[TwinPair]) -> list[TextDifference]:
    """Return the texts whose frequency differs significantly, largest difference first, for each type of error.

    The test is exact and paired (McNemar): of the pairs in which only one side has the text, half should be twins.
    """
    differences = []
    for error_type in ERROR_TYPES:
        differences += _compare_texts([pair for pair in pairs if pair.error_type == error_type])
    return sorted(differences, key=lambda each: (not each.is_in_twins_alone, -abs(each.difference)))


def _compare_texts(pairs: Sequence[TwinPair]) -> list[TextDifference]:
    originals: Counter[tuple[str, str]] = Counter()
    gained: Counter[tuple[str, str]] = Counter()
    lost: Counter[tuple[str, str]] = Counter()
    in_twins: Counter[tuple[str, str]] = Counter()
    for pair in pairs:
        before, after = set(_iter_comparable(pair.original)), set(_iter_comparable(pair.twin))
        originals.update(before)
        in_twins.update(after)
        gained.update(after - before)
        lost.update(before - after)
    tested = [key for key in sorted({*gained, *lost}) if gained[key] + lost[key] >= _LEAST_CHANGES]
    if not tested:
        return []
    ps = [binomtest(gained[key], gained[key] + lost[key]).pvalue for key in tested]
    adjusted = false_discovery_control(ps)
    found = [
        TextDifference(
            pairs[0].error_type, *key, in_twins[key], originals[key], gained[key], lost[key], len(pairs), float(p)
        )
        for key, p in zip(tested, adjusted, strict=True)
        if p <= FALSE_DISCOVERIES
    ]
    # A word that differs because of one property is listed there.
    named = {(each.text.casefold(), each.gained, each.lost) for each in found if each.place != ANY_PLACE}
    return [
        each
        for each in found
        if each.place != ANY_PLACE or (each.text, each.gained, each.lost) not in named or each.is_in_twins_alone
    ]


def _iter_comparable(step: ShownStep) -> Iterator[tuple[str, str]]:
    """Yield (place, text) of a step, with # for each digit, and (ANY_PLACE, word) of every word, also in names."""
    names = [str(material["name"]) for material in (*step.inputs, *step.materials)]
    for text in (*names, *(str(record["description"]) for record in step.observations)):
        for word in _WORD.findall(text):
            yield ANY_PLACE, word.casefold()
    for place, text in iter_texts(step):
        if len(text) <= _LONGEST:
            yield place, re.sub("[0-9]", "#", text)
        # With their units, so that a unit which no correct step uses is found.
        for word in _WORD.findall(text):
            yield ANY_PLACE, word.casefold()
