"""Reads data files of models, prices and casts, and checks everything in them before anyone uses it. No Django."""

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
    """Files with problems: all of them, each as "path:line: entry.field: what is wrong and what is allowed"."""


class ModelFiles(NamedTuple):
    """What some files hold together. `prices` are those given apart from their model; each names it."""

    models: list[dict[str, Any]]
    prices: list[dict[str, Any]]
    casts: list[dict[str, Any]]


def read(paths: Sequence[Path], known: Mapping[str, Mapping[str, Any]]) -> ModelFiles:
    """All files together, casts written out in full. `known` are the models there are already, by name.

    ModelFileError lists every problem of every file. A cast may use a model of another of the files.
    """
    documents, problems = [], []
    for path in paths:
        data, unreadable = _document(path)
        documents.append((path, data))
        problems += unreadable
    models = {**known, **_models(documents)}
    for path, data in documents:
        problems += positions.located(path, check(data, models)) if data else []
    problems += _twice(documents)
    if problems:
        raise ModelFileError("\n".join(problems))
    models_, prices, casts = ([entry for _, data in documents for entry in data.get(kind, ())] for kind in KINDS)
    return ModelFiles(models_, prices, [cast_files.complete(cast) for cast in casts])


def check(data: Mapping[str, Any], models: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Every problem of one document, given all models that its casts and prices may name."""
    problems = entries.unknown(data, set(KINDS))
    lists = {kind: data.get(kind, []) for kind in KINDS}
    problems += [wrong(kind, value, "a list") for kind, value in lists.items() if not isinstance(value, list)]
    if problems:
        return problems
    problems += entries.each("models", lists["models"], check_model) + entries.twice("models", "name", lists["models"])
    problems += entries.each("prices", lists["prices"], lambda price: _check_apart(price, models))
    problems += entries.each("casts", lists["casts"], lambda cast: cast_files.check_cast(cast, models))
    return problems + entries.twice("casts", "name", lists["casts"])


def _check_apart(data: Mapping[str, Any], models: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A price given apart from its model names it."""
    name = data.get("model")
    known = isinstance(name, str) and name in models
    problems = [] if known else [wrong("model", name, ", ".join(sorted(models)) or "no model is known")]
    return problems + check_price({key: value for key, value in data.items() if key != "model"})


def _models(documents: Sequence[tuple[Path, Mapping[str, Any]]]) -> dict[str, Mapping[str, Any]]:
    """The models of all files by name, as far as they can be read: casts are checked against them."""
    lists = [data.get("models") for _, data in documents]
    found = [entry for entries_ in lists if isinstance(entries_, list) for entry in entries_]
    return {
        entry["name"]: entry if isinstance(entry.get("options", {}), Mapping) else {}
        for entry in found
        if isinstance(entry, Mapping) and isinstance(entry.get("name"), str)
    }


def _twice(documents: Sequence[tuple[Path, Mapping[str, Any]]]) -> list[str]:
    """Names that two files give: which of them is meant would hang on their order."""
    problems: list[str] = []
    first: dict[tuple[str, str], Path] = {}
    for path, data in documents:
        for kind in ("models", "casts"):
            listed = data.get(kind)
            for name in sorted(set(entries.named(listed, "name") if isinstance(listed, list) else ())):
                if (other := first.setdefault((kind, name), path)) is not path:
                    problems.append(f"{positions.shown(path)}: {kind}: {name!r} stands in {positions.shown(other)} too")
    return problems


def _document(path: Path) -> tuple[dict[str, Any], list[str]]:
    """The object that a file holds, or an empty one and why it cannot be read."""
    text = ""
    try:
        text = path.read_text(encoding="utf-8")
        data = json.loads(text, parse_constant=positions.refuse_constant, object_pairs_hook=positions.take_each_once)
        _need_plain(json.dumps(data, ensure_ascii=False, allow_nan=False))
    except OSError as error:
        return {}, [f"{path}: cannot be read: {error.strerror}"]
    except (ValueError, RecursionError) as error:
        return {}, [positions.unreadable(path, text, error)]
    if not isinstance(data, dict) or not data:
        return {}, [f"{positions.shown(path)}:1: must hold one object with {', '.join(KINDS)} or some of them"]
    return data, []


def _need_plain(text: str) -> None:
    """Neither half a surrogate pair nor a NUL: no database stores them."""
    text.encode()
    if "\\u0000" in text:
        raise ValueError("holds the character NUL")
