"""Convert values to the texts that raters see: letters and names for barcodes, labels, conditions, elapsed times."""

import re
from collections.abc import Mapping
from typing import Any

from simulation.lab.materials import CONDITION_NAMES
from wetbench_site.text import INVISIBLE

UNLIMITED = "unlimited"
AVAILABILITY = {
    UNLIMITED: "unlimited supply",
    "available_for_further_use": "can be used further",
    "not_available_for_further_use": "used up",
}
# The parentheses are removed together with the barcode; the conditional group requires both or none.
_BARCODE = re.compile(r"(\s?\()?MAT-[A-Z0-9]{8}(?(1)\))")
_PH = re.compile(r"\bph\b")


class Pseudonyms:
    """The letter of each barcode, and the names that replace barcodes in texts."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, str]] = {}

    def add_material(self, barcode: str, name: str) -> str:
        """Return the material's letter; a new one for a new barcode."""
        ref = self._known[barcode][0] if barcode in self._known else index_to_letters(len(self._known))
        # A barcode inside a name is removed, not replaced: its replacement could be the name itself.
        self._known[barcode] = (ref, replace_invisible(_BARCODE.sub("", name)))
        return ref

    def get_letter(self, barcode: str) -> str:
        return self._known[barcode][0] if barcode in self._known else ""

    def display_name(self, barcode: str) -> str:
        """Return the material's name, with its letter if another material has the same name."""
        if barcode not in self._known:
            return "a material"
        ref, name = self._known[barcode]
        # Two materials with equal names need their letters, or texts about them are ambiguous.
        is_unique = sum(1 for _, other in self._known.values() if other == name) == 1
        return name if is_unique else f"{name} ({ref})"

    def format_value(self, value: Any) -> str:
        """Return any value as text, with barcodes replaced by names and nested values in a fixed order."""
        match value:
            case None:
                return ""
            case bool():
                return "yes" if value else "no"
            case Mapping():
                # Sorted, because the order of keys in a reply differs between models.
                labels = {key: self.format_value(format_label(key)) for key in sorted(value)}
                return "; ".join(f"{label}: {self.format_value(value[key])}" for key, label in labels.items())
            case list() | tuple():
                return ", ".join(self.format_value(part) for part in value)
            case _:
                text = replace_invisible(str(value))
                return _BARCODE.sub(lambda match: "" if match[1] else self.display_name(match[0]), text)

    def clean_material(self, material: dict[str, Any]) -> dict[str, Any]:
        """Return the material with barcodes removed or replaced by names in every displayed text."""
        properties = [[self.format_value(label), self.format_value(value)] for label, value in material["properties"]]
        return {**material, "name": self.format_value(material["name"]), "properties": properties}


def replace_invisible(text: str) -> str:
    return INVISIBLE.sub("\ufffd", text)  # a visible sign, so that the text does not appear shorter than it is


def describe_condition(value: Any) -> Any:
    """Return the display text of a storage condition; any other value unchanged."""
    return CONDITION_NAMES.get(value, value) if isinstance(value, str) else value


def format_label(key: Any) -> str:
    """Return a property's name as a label; one that begins with a symbol (pH, dNTP, mCherry) stays as written."""
    words = _PH.sub("pH", str(key).replace("_", " ").strip())
    first = words.partition(" ")[0]  # only words in small letters: pH, mCherry and dNTP have a fixed spelling
    return words[:1].upper() + words[1:] if first.islower() else words


def index_to_letters(index: int) -> str:
    """Return A for 0, Z for 25, AA for 26."""
    text = ""
    index += 1
    while index:
        index, digit = divmod(index - 1, 26)
        text = chr(ord("A") + digit) + text
    return text


def letters_to_index(letters: str) -> int:
    """Return 0 for A, 25 for Z, 26 for AA."""
    index = 0
    for letter in letters:
        index = 26 * index + ord(letter) - ord("A") + 1
    return index - 1


def format_elapsed(seconds: int) -> str:
    """Return the time since the episode began, "after 1 h 05 min"; a time of day would show when the episode ran."""
    hours, minutes = divmod(seconds // 60, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"after {days} d {hours} h {minutes:02d} min"
    return f"after {hours} h {minutes:02d} min" if hours else f"after {minutes} min"
