"""One JSON object of an uploaded line, read field by field. Whatever does not fit is noted with its place."""

from collections.abc import Collection, Mapping
from typing import Any

from ratings.exchange.imports.import_lines import Note, hides, shown

_LONGEST = 4_000


class Fields:
    """Reads what is asked for and hands back something usable in any case: problems go to `note`."""

    def __init__(self, data: Mapping[str, Any], place: str, note: Note) -> None:
        self.data, self.place, self._note = data, place, note

    def wrong(self, key: str, said: str) -> None:
        self._note(f"{self.place}.{key}".strip("."), said)

    def text(self, key: str, longest: int = _LONGEST, needed: bool = True) -> str:
        value = self.data.get(key)
        if value is None and not needed:
            return ""
        if not isinstance(value, str) or len(value) > longest or (needed and not value.strip()):
            said = "is missing" if value is None else f"is {shown(value)}"
            self.wrong(key, f"{said}; it must be text of {int(needed)} to {longest:,} characters")
            return ""
        return value

    def name(self, key: str, longest: int, needed: bool = True) -> str:
        """Text on one line, with nothing in it that turns or hides text: people choose and compare by it."""
        value = self.text(key, longest, needed)
        if hides(value):
            self.wrong(key, f"is {shown(value)}; it must not hold control characters or line breaks")
        return value

    def written(self, key: str) -> Any:
        """Text, a number as it was written, or whatever else can be written out; "" where there is nothing."""
        value = self.data.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        return "" if value is None else value

    def word(self, key: str, allowed: Collection[str]) -> str:
        """One of these words, whatever its capitals, spaces and hyphens; "" where it is left out."""
        value = self.data.get(key)
        if value is None or value == "":
            return ""
        folded = {_folded(word): word for word in allowed}
        if not isinstance(value, str) or _folded(value) not in folded:
            self.wrong(key, f"is {shown(value)}; allowed: {', '.join(allowed)}")
            return ""
        return folded[_folded(value)]

    def flag(self, key: str, standing: bool) -> bool:
        value = self.data.get(key, standing)
        if not isinstance(value, bool):
            self.wrong(key, f"is {shown(value)}; it must be true or false")
        return value is True

    def seconds(self, key: str, standing: int) -> int:
        value = self.data.get(key, standing)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 10**9:
            self.wrong(key, f"is {shown(value)}; it must be seconds since the start, 0 or more")
            return standing
        return int(value)

    def object(self, key: str, needed: bool = True) -> "Fields":
        value = self.data.get(key)
        if isinstance(value, Mapping) or (value is None and not needed):
            return Fields(value or {}, f"{self.place}.{key}".strip("."), self._note)
        self.wrong(key, "is missing; it must be an object" if value is None else "must be an object")
        return Fields({}, "", lambda field, said: None)  # one problem is enough

    def objects(self, key: str, most: int, needed: bool = True) -> list["Fields"]:
        value = self.data.get(key)
        if value is None and not needed:
            return []
        if not isinstance(value, list) or not all(isinstance(entry, Mapping) for entry in value):
            self.wrong(key, "is missing; it must be a list" if value is None else "must be a list of objects")
            return []
        if len(value) > most:
            self.wrong(key, f"holds {len(value)} entries; at most {most} can be shown")
            return []
        place = f"{self.place}.{key}".strip(".")
        return [Fields(entry, f"{place}[{at}]", self._note) for at, entry in enumerate(value)]

    def values(self, key: str, most: int) -> dict[str, Any]:
        """An object whose values are shown as they are written, in whatever shape they have."""
        found = dict(self.object(key, needed=False).data)
        if len(found) > most:
            self.wrong(key, f"holds {len(found)} entries; at most {most} can be shown")
            return {}
        return found


def _folded(word: str) -> str:
    return word.strip().casefold().replace(" ", "_").replace("-", "_").lstrip("_")
