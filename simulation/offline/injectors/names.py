"""Names that an error may put in place of another: notes of a step, and names whose form does not reveal the exchange."""

import re
from collections.abc import Sequence

from simulation.lab.outcomes import NOTE
from simulation.offline.injectors import edits

_PUNCTUATION = re.compile(r"[^\w\s]")


def list_notes(case: edits.Case, start: str) -> list[edits.Reading]:
    """Return the routine notes whose heading matches the pattern at its beginning."""
    notes = [reading for reading in case.readings if reading.measurement_type == NOTE]
    return [note for note in notes if re.match(start, note.description)]


def choose_like_names(names: Sequence[str], right: str, most_marks: int = 0, most_names: int = 3) -> list[str]:
    """Return up to `most_names` names nearest in form to the right one.

    They have as many punctuation marks, or up to `most_marks` more or fewer. Then those nearest in their number of digits
    are chosen, and among these the nearest in length.
    """
    near = [name for name in names if abs(count_marks(name) - count_marks(right)) <= most_marks]
    return sorted(near, key=lambda name: (_measure_distance(name, right), name))[:most_names]


def _measure_distance(name: str, right: str) -> tuple[int, int, int]:
    """Return the differences in punctuation marks, digits and length."""
    marks, digits = (abs(count(name) - count(right)) for count in (count_marks, count_digits))
    return marks, digits, abs(len(name) - len(right))


def count_marks(name: str) -> int:
    """Return the number of punctuation marks."""
    return len(_PUNCTUATION.findall(name))


def count_digits(name: str) -> int:
    """Return the number of digits."""
    return sum(map(str.isdigit, name))


def count_numbers(name: str) -> int:
    """Return how many numbers a name contains."""
    return len(edits.NUMBER.findall(name))
