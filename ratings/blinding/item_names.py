"""Name an item by its action and its first material: "Transfer, HeLa wells 13 to 15".

A name is built from what all versions of a pair share, so a twin has the name of its original. Different items can have
the same name: a list also shows the item's number or code.
"""

import re
from typing import Any

from ratings.blinding.pseudonyms import AVAILABILITY, UNLIMITED
from simulation.lab.name_ranges import fold_names
from simulation.lab.notation import write_text

MAX_LENGTH = 120  # characters; the name is stored with the item
MAX_GOAL_LENGTH = 72
_NO_NAME = "Item"
# Where a word begins in "CellCounter", "FillToVolume", "DNASynthesis" and "AdjustpH"; "qPCR" is one word.
_WORD_START = re.compile(
    r"(?<=[a-z]{2})(?=[A-Z])(?!H\b)|(?<=[A-Z][a-z])(?=[A-Z][a-z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[a-z])(?=pH\b)"
)


def name_item(payload: dict[str, Any]) -> str:
    """Return the name of an item: action and first material, or the goal and the number of steps of a record."""
    if not payload:
        return _NO_NAME
    if payload["kind"] == "evidence":
        n_steps = len(payload["steps"])
        return f"{shorten(write_text(payload['goal']), MAX_GOAL_LENGTH)} ({n_steps} step{'' if n_steps == 1 else 's'})"
    action = format_action(payload["action"]["name"])
    # A supply is used by many steps of an episode, so its name distinguishes nothing.
    own = [material for material in payload["before"] if material["availability"] != AVAILABILITY[UNLIMITED]]
    materials = fold_names(write_text(material["name"]) for material in own or payload["before"])
    return shorten(", ".join([action, *materials[:1]]), MAX_LENGTH)


def format_action(name: str) -> str:
    """Return the name of an action as words: "CellCounter" becomes "Cell counter", "DNASynthesis" "DNA synthesis"."""
    first, *others = _WORD_START.sub(" ", name).split() or [_NO_NAME]
    # Only ordinary words become small: "ELISA" and "pH" stay.
    return " ".join([first, *(word.lower() if word.istitle() else word for word in others)])


def shorten(text: str, length: int) -> str:
    """Return the text in one line, cut after a word if it is longer than this."""
    line = " ".join(text.split())
    if len(line) <= length:
        return line
    cut = line[: length - 1]
    # A single long word is cut inside.
    return f"{(cut.rpartition(' ')[0] or cut).rstrip(' ,;:.')}…"
