"""Parse the JSON object of an uploaded line field by field. Problems are recorded with their location."""

from collections.abc import Collection, Mapping
from typing import Any

from ratings.exchange.imports.json_lines import RecordProblem, format_quoted, has_hidden_characters

_MAX_TEXT_LENGTH = 4_000


class FieldParser:
    """Parse the fields of one JSON object.

    If a field is wrong, every method records the problem with `add_problem` and still returns a usable value.
    So one pass finds all problems of a line.
    """

    def __init__(self, data: Mapping[str, Any], path: str, note: RecordProblem) -> None:
        self.data, self.path, self._note = data, path, note

    def add_problem(self, key: str, message: str) -> None:
        self._note(f"{self.path}.{key}".strip("."), message)

    def parse_text(self, key: str, max_length: int = _MAX_TEXT_LENGTH, required: bool = True) -> str:
        value = self.data.get(key)
        if value is None and not required:
            return ""
        if not isinstance(value, str) or len(value) > max_length or (required and not value.strip()):
            problem = "is missing" if value is None else f"is {format_quoted(value)}"
            self.add_problem(key, f"{problem}; it must be text of {int(required)} to {max_length:,} characters")
            return ""
        return value

    def parse_name(self, key: str, max_length: int, required: bool = True) -> str:
        """Return a name: text on one line without invisible characters, because people compare names by eye."""
        value = self.parse_text(key, max_length, required)
        if has_hidden_characters(value):
            self.add_problem(key, f"is {format_quoted(value)}; it must not contain control characters or line breaks")
        return value

    def get_displayed_value(self, key: str) -> Any:
        """Return the value for display: a number as written in the file, any other value unchanged, "" if missing."""
        value = self.data.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        return "" if value is None else value

    def parse_choice(self, key: str, allowed: Collection[str]) -> str:
        """Return the allowed word that equals the field except for case, spaces and hyphens; "" if it is missing."""
        value = self.data.get(key)
        if value is None or value == "":
            return ""
        folded = {_normalise_word(word): word for word in allowed}
        if not isinstance(value, str) or _normalise_word(value) not in folded:
            self.add_problem(key, f"is {format_quoted(value)}; allowed: {', '.join(allowed)}")
            return ""
        return folded[_normalise_word(value)]

    def parse_flag(self, key: str, default: bool) -> bool:
        value = self.data.get(key, default)
        if not isinstance(value, bool):
            self.add_problem(key, f"is {format_quoted(value)}; it must be true or false")
        return value is True

    def parse_seconds(self, key: str, default: int) -> int:
        value = self.data.get(key, default)
        # bool is a subclass of int; NaN fails the comparison
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 10**9:
            self.add_problem(key, f"is {format_quoted(value)}; it must be seconds since the start, 0 or more")
            return default
        return int(value)

    def parse_object(self, key: str, required: bool = True) -> "FieldParser":
        value = self.data.get(key)
        if isinstance(value, Mapping) or (value is None and not required):
            return FieldParser(value or {}, f"{self.path}.{key}".strip("."), self._note)
        self.add_problem(key, "is missing; it must be an object" if value is None else "must be an object")
        return FieldParser({}, "", lambda field, message: None)  # do not report its missing fields as well

    def parse_objects(self, key: str, max_entries: int, required: bool = True) -> list["FieldParser"]:
        value = self.data.get(key)
        if value is None and not required:
            return []
        if not isinstance(value, list) or not all(isinstance(entry, Mapping) for entry in value):
            self.add_problem(key, "is missing; it must be a list" if value is None else "must be a list of objects")
            return []
        if len(value) > max_entries:
            self.add_problem(key, f"has {len(value)} entries; at most {max_entries} can be shown")
            return []
        path = f"{self.path}.{key}".strip(".")
        return [FieldParser(entry, f"{path}[{index}]", self._note) for index, entry in enumerate(value)]

    def parse_values(self, key: str, max_entries: int) -> dict[str, Any]:
        """Return an object whose values may have any type; raters see them as written in the file."""
        values = dict(self.parse_object(key, required=False).data)
        if len(values) > max_entries:
            self.add_problem(key, f"has {len(values)} entries; at most {max_entries} can be shown")
            return {}
        return values


def _normalise_word(word: str) -> str:
    return word.strip().casefold().replace(" ", "_").replace("-", "_").lstrip("_")
