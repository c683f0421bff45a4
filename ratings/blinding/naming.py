"""Words for what a rater sees: letters and names in the place of barcodes, headings, places, times. No Django."""

import re
from collections.abc import Mapping
from typing import Any

CONDITIONS = {
    "room_temp": "room temperature",
    "4C": "4 °C",
    "-20C": "−20 °C",
    "-80C": "−80 °C",
    "-196C": "−196 °C, liquid nitrogen",
    "incubating_conditions": "incubator",
    "cell_culture_conditions": "cell culture incubator",
    "ice": "on ice",
    "dry_ice": "on dry ice",
}
UNLIMITED = "unlimited"
AVAILABILITY = {
    UNLIMITED: "unlimited supply",
    "available_for_further_use": "can be used further",
    "not_available_for_further_use": "used up",
}
_BARCODE = re.compile(r"(\s?\()?MAT-[A-Z0-9]{8}(?(1)\))")
# Control characters, lone surrogates and what turns or hides text: a reader must see all there is, as it is.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
_PH = re.compile(r"\bph\b")


class Names:
    """Which letter stands for which barcode, and the names to put in the place of barcodes."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, str]] = {}

    def add(self, barcode: str, name: str) -> str:
        """The material's letter; a new one for a new barcode."""
        ref = self._known[barcode][0] if barcode in self._known else letters(len(self._known))
        self._known[barcode] = (ref, visible(_BARCODE.sub("", name)))
        return ref

    def ref(self, barcode: str) -> str:
        return self._known[barcode][0] if barcode in self._known else ""

    def name(self, barcode: str) -> str:
        """The material's name, with its letter where another material has the same name."""
        if barcode not in self._known:
            return "a material"
        ref, name = self._known[barcode]
        alone = sum(1 for _, other in self._known.values() if other == name) == 1
        return name if alone else f"{name} ({ref})"

    def text(self, value: Any) -> str:
        """Any value as text: barcodes replaced by names, nested values written out in a fixed order."""
        match value:
            case None:
                return ""
            case bool():
                return "yes" if value else "no"
            case Mapping():
                return "; ".join(f"{self.text(label(key))}: {self.text(value[key])}" for key in sorted(value))
            case list() | tuple():
                return ", ".join(self.text(part) for part in value)
            case _:
                return _BARCODE.sub(self._replace, visible(str(value)))

    def clean(self, material: dict[str, Any]) -> dict[str, Any]:
        """The material with every shown text freed of barcodes."""
        shown = [[self.text(label), self.text(value)] for label, value in material["properties"]]
        return {**material, "name": self.text(material["name"]), "properties": shown}

    def _replace(self, match: re.Match[str]) -> str:
        return "" if match.group(1) else self.name(match.group(0))


def visible(text: str) -> str:
    return _UNSEEN.sub("\ufffd", text)


def in_words(value: Any) -> Any:
    """A place that an action names, as a material's place is said; anything else as it is."""
    return CONDITIONS.get(value, value) if isinstance(value, str) else value


def label(key: Any) -> str:
    """A property's name as a heading; one that begins with a symbol (pH, dNTP, mCherry) keeps it as it is written."""
    words = _PH.sub("pH", str(key).replace("_", " ").strip())
    first = words.partition(" ")[0]
    return words[:1].upper() + words[1:] if first.islower() else words


def letters(index: int) -> str:
    """0 is A, 25 is Z, 26 is AA."""
    found = ""
    index += 1
    while index:
        index, digit = divmod(index - 1, 26)
        found = chr(ord("A") + digit) + found
    return found


def elapsed(seconds: int) -> str:
    """Time since the episode began: "after 1 h 05 min"; never a time of day."""
    hours, minutes = divmod(seconds // 60, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"after {days} d {hours} h {minutes:02d} min"
    return f"after {hours} h {minutes:02d} min" if hours else f"after {minutes} min"
