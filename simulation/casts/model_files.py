"""Load and validate data files of models, prices and casts."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from simulation.casts import cast_files
from simulation.casts.model_entries import check_model, check_price, wrong
from simulation.lab import entries, positions
from simulation.lab.errors import LabError

KINDS = ("models", "prices", "casts")


class ModelFileError(LabError):
    """Invalid files: all problems, each as "path:line: entry.field: what is wrong and what is allowed"."""


class ModelFiles(NamedTuple):
    """The combined content of some files. `prices` are those listed separately from their model, which each names."""

    models: list[dict[str, Any]]
    prices: list[dict[str, Any]]
    casts: list[dict[str, Any]]


def read(paths: Sequence[Path], known: Mapping[str, Mapping[str, Any]]) -> ModelFiles:
    """Return all files combined, with casts completed. `known` are the existing models by name.

    Raises ModelFileError with every problem of every file. A cast may use a model of another of the files.
    """
    documents, problems = [], []
    for path in paths:
        data, unreadable = _document(path)
        documents.append((path, data))
        problems += unreadable
    # Models of all files are collected first, so the order of the files does not matter.
    models = {**known, **_models(documents)}
    for path, data in documents:
        problems += positions.located(path, check(data, models)) if data else []
    problems += _twice(documents)
    if problems:
        raise ModelFileError("\n".join(problems))
    models_, prices, casts = ([entry for _, data in documents for entry in data.get(kind, ())] for kind in KINDS)
    return ModelFiles(models_, prices, [cast_files.complete(cast) for cast in casts])


def check(data: Mapping[str, Any], models: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return every problem of one document, given all models that its casts and prices may name."""
    problems = entries.unknown(data, set(KINDS))
    lists = {kind: data.get(kind, []) for kind in KINDS}
    problems += [wrong(kind, value, "a list") for kind, value in lists.items() if not isinstance(value, list)]
    # Entries of something that is no list cannot be checked.
    if problems:
        return problems
    problems += entries.each("models", lists["models"], check_model) + entries.twice("models", "name", lists["models"])
    problems += entries.each("prices", lists["prices"], lambda price: _check_apart(price, models))
    problems += entries.each("casts", lists["casts"], lambda cast: cast_files.check_cast(cast, models))
    return problems + entries.twice("casts", "name", lists["casts"])


def _check_apart(data: Mapping[str, Any], models: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Check a price that is listed separately from its model."""
    name = data.get("model")
    is_known = isinstance(name, str) and name in models
    problems = [] if is_known else [wrong("model", name, ", ".join(sorted(models)) or "no model is known")]
    return problems + check_price({key: value for key, value in data.items() if key != "model"})


def _models(documents: Sequence[tuple[Path, Mapping[str, Any]]]) -> dict[str, Mapping[str, Any]]:
    """Return the models of all files by name, as far as they can be parsed, to check casts against them."""
    lists = [data.get("models") for _, data in documents]
    entries_found = [entry for entries_ in lists if isinstance(entries_, list) for entry in entries_]
    return {
        # An entry with invalid options still counts as a model, so that casts do not report it as unknown.
        entry["name"]: entry if isinstance(entry.get("options", {}), Mapping) else {}
        for entry in entries_found
        if isinstance(entry, Mapping) and isinstance(entry.get("name"), str)
    }


def _twice(documents: Sequence[tuple[Path, Mapping[str, Any]]]) -> list[str]:
    """Return names in two files, because their order would decide which one counts."""
    problems: list[str] = []
    first: dict[tuple[str, str], Path] = {}
    for path, data in documents:
        for kind in ("models", "casts"):
            entries_of_kind = data.get(kind)
            for name in sorted(
                set(entries.named(entries_of_kind, "name") if isinstance(entries_of_kind, list) else ())
            ):
                if (other := first.setdefault((kind, name), path)) is not path:
                    problems.append(f"{positions.shown(path)}: {kind}: {name!r} is also in {positions.shown(other)}")
    return problems


def _document(path: Path) -> tuple[dict[str, Any], list[str]]:
    """Return the object in a file, or an empty one and why it cannot be parsed."""
    text = ""
    try:
        text = path.read_text(encoding="utf-8")
        data = json.loads(text, parse_constant=positions.refuse_constant, object_pairs_hook=positions.take_each_once)
        # Written and checked as text, since surrogates can hide in escaped form.
        _need_plain(json.dumps(data, ensure_ascii=False, allow_nan=False))
    except OSError as error:
        return {}, [f"{path}: cannot be read: {error.strerror}"]
    except (ValueError, RecursionError) as error:
        return {}, [positions.unreadable(path, text, error)]
    if not isinstance(data, dict) or not data:
        return {}, [f"{positions.shown(path)}:1: must contain one object with {', '.join(KINDS)} or some of them"]
    return data, []


def _need_plain(text: str) -> None:
    """Raise ValueError for unpaired surrogates and NUL, which no database stores."""
    text.encode()
    if "\\u0000" in text:
        raise ValueError("contains the character NUL")
