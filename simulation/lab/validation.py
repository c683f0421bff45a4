"""Small checks that every data file needs; each returns its problems as "field: what is wrong and what is allowed"."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any


def check_each(path: str, entries: Sequence[Any], check_one: Callable[[Mapping[str, Any]], list[str]]) -> list[str]:
    problems = []
    for index, entry in enumerate(entries):
        messages = check_one(entry) if isinstance(entry, Mapping) else ["must be an object"]
        problems += [f"{path}[{index}].{problem}" for problem in messages]
    return problems


def list_names(entries: Sequence[Any], key: str) -> list[str]:
    return [entry[key] for entry in entries if isinstance(entry, Mapping) and isinstance(entry.get(key), str)]


def find_duplicates(path: str, key: str, entries: Sequence[Any]) -> list[str]:
    names = list_names(entries, key)
    return [f"{path}: the {key} {name!r} occurs twice" for name in sorted(set(names)) if names.count(name) > 1]


def find_unknown_fields(data: Mapping[str, Any], allowed: set[str]) -> list[str]:
    return [f"{key}: unknown field; allowed: {', '.join(sorted(allowed))}" for key in sorted(set(data) - allowed)]


def check_texts(data: Mapping[str, Any], keys: Iterable[str]) -> list[str]:
    return [
        f"{key}: is {data.get(key)!r}; allowed: text, not empty"
        for key in keys
        if not isinstance(data.get(key), str) or not data[key]
    ]
