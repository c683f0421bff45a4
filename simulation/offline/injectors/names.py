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

    They have as many punctuation marks, or up to `most_marks` more or fewer. Then the nearest in length are chosen.
    """
    distances = {name: (abs(_count_marks(name) - _count_marks(right)), abs(len(name) - len(right))) for name in names}
    near = [name for name, (marks, _) in distances.items() if marks <= most_marks]
    return sorted(near, key=lambda name: (*distances[name], name))[:most_names]


def _count_marks(name: str) -> int:
    return len(_PUNCTUATION.findall(name))
