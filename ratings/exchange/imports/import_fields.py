"""Parse the JSON object of an uploaded line field by field. Problems are recorded with their location."""

from collections.abc import Collection, Mapping
from typing import Any

from ratings.exchange.imports.import_lines import Note, hides, shown

_LONGEST = 4_000


class Fields:
    """Parse the fields of one JSON object.

    Every method returns a usable value, also for a wrong field, and records the problem with `add_problem`. So one pass
    finds all problems of a line.
    """

    def __init__(self, data: Mapping[str, Any], path: str, note: Note) -> None:
        self.data, self.path, self._note = data, path, note

    def wrong(self, key: str, said: str) -> None:
        self._note(f"{self.path}.{key}".strip("."), said)

    def text(self, key: str, longest: int = _LONGEST, needed: bool = True) -> str:
        value = self.data.get(key)
        if value is None and not needed:
            return ""
        if not isinstance(value, str) or len(value) > longest or (needed and not value.strip()):
            problem = "is missing" if value is None else f"is {shown(value)}"
            self.wrong(key, f"{problem}; it must be text of {int(needed)} to {longest:,} characters")
            return ""
        return value

    def name(self, key: str, longest: int, needed: bool = True) -> str:
        """Return text on one line without invisible characters: people choose and compare by it."""
        value = self.text(key, longest, needed)
        if hides(value):
            self.wrong(key, f"is {shown(value)}; it must not contain control characters or line breaks")
        return value

    def written(self, key: str) -> Any:
        """Return text, or a number as it was written in the file, or any other value as it is; "" if there is none."""
        value = self.data.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        return "" if value is None else value

    def word(self, key: str, allowed: Collection[str]) -> str:
        """Return the allowed word that matches apart from case, spaces and hyphens; "" if the field is left out."""
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
        # bool is a subclass of int; NaN fails the comparison
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 10**9:
            self.wrong(key, f"is {shown(value)}; it must be seconds since the start, 0 or more")
            return standing
        return int(value)

    def object(self, key: str, needed: bool = True) -> "Fields":
        value = self.data.get(key)
        if isinstance(value, Mapping) or (value is None and not needed):
            return Fields(value or {}, f"{self.path}.{key}".strip("."), self._note)
        self.wrong(key, "is missing; it must be an object" if value is None else "must be an object")
        return Fields({}, "", lambda field, message: None)  # do not report its missing fields as well

    def objects(self, key: str, most: int, needed: bool = True) -> list["Fields"]:
        value = self.data.get(key)
        if value is None and not needed:
            return []
        if not isinstance(value, list) or not all(isinstance(entry, Mapping) for entry in value):
            self.wrong(key, "is missing; it must be a list" if value is None else "must be a list of objects")
            return []
        if len(value) > most:
            self.wrong(key, f"has {len(value)} entries; at most {most} can be shown")
            return []
        path = f"{self.path}.{key}".strip(".")
        return [Fields(entry, f"{path}[{index}]", self._note) for index, entry in enumerate(value)]

    def values(self, key: str, most: int) -> dict[str, Any]:
        """Return an object with values of any shape, to be shown as they are written."""
        values = dict(self.object(key, needed=False).data)
        if len(values) > most:
            self.wrong(key, f"has {len(values)} entries; at most {most} can be shown")
            return {}
        return values


def _folded(word: str) -> str:
    return word.strip().casefold().replace(" ", "_").replace("-", "_").lstrip("_")
