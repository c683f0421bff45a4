"""Load and validate data files of models, prices and casts."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from simulation.casts import cast_files
from simulation.casts.model_entries import check_model, check_price, format_problem
from simulation.lab import json_lines, validation
from simulation.lab.errors import LabError

KINDS = ("models", "prices", "casts")


class ModelFileError(LabError):
    """Invalid files: all problems, each as "path:line: entry.field: what is wrong and what is allowed"."""


class ModelFiles(NamedTuple):
    """The combined content of several files. `prices` has the prices listed outside a model; each names its model."""

    models: list[dict[str, Any]]
    prices: list[dict[str, Any]]
    casts: list[dict[str, Any]]


def load_model_files(paths: Sequence[Path], known: Mapping[str, Mapping[str, Any]]) -> ModelFiles:
    """Return the combined content of all files, with the defaults of casts filled in.

    `known` are the existing models by name. Raises ModelFileError with every problem of every file. A cast may use a
    model from any of the files.
    """
    documents, problems = [], []
    for path in paths:
        data, unreadable = _load_document(path)
        documents.append((path, data))
        problems += unreadable
    # Models of all files are collected first, so the order of the files does not matter.
    models = {**known, **_collect_models(documents)}
    for path, data in documents:
        problems += json_lines.locate_problems(path, check_document(data, models)) if data else []
    problems += _find_duplicates(documents)
    if problems:
        raise ModelFileError("\n".join(problems))
    models_, prices, casts = ([entry for _, data in documents for entry in data.get(kind, ())] for kind in KINDS)
    return ModelFiles(models_, prices, [cast_files.complete_cast(cast) for cast in casts])


def check_document(data: Mapping[str, Any], models: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return every problem of one document, given all models that its casts and prices may name."""
    problems = validation.find_unknown_fields(data, set(KINDS))
    lists = {kind: data.get(kind, []) for kind in KINDS}
    problems += [format_problem(kind, value, "a list") for kind, value in lists.items() if not isinstance(value, list)]
    # Without lists, there are no entries to check.
    if problems:
        return problems
    problems += validation.check_each("models", lists["models"], check_model) + validation.find_duplicates(
        "models", "name", lists["models"]
    )
    problems += validation.check_each("prices", lists["prices"], lambda price: _check_separate_price(price, models))
    problems += validation.check_each("casts", lists["casts"], lambda cast: cast_files.check_cast(cast, models))
    return problems + validation.find_duplicates("casts", "name", lists["casts"])


def _check_separate_price(data: Mapping[str, Any], models: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Check a price that is listed separately from its model."""
    name = data.get("model")
    is_known = isinstance(name, str) and name in models
    problems = [] if is_known else [format_problem("model", name, ", ".join(sorted(models)) or "no model is known")]
    return problems + check_price({key: value for key, value in data.items() if key != "model"})


def _collect_models(documents: Sequence[tuple[Path, Mapping[str, Any]]]) -> dict[str, Mapping[str, Any]]:
    """Return the models of all files by name, as far as they can be parsed, to check casts against them."""
    lists = [data.get("models") for _, data in documents]
    entries_found = [entry for entries_ in lists if isinstance(entries_, list) for entry in entries_]
    return {
        # An entry with invalid options still counts as a model, so that casts do not report it as unknown.
        entry["name"]: entry if isinstance(entry.get("options", {}), Mapping) else {}
        for entry in entries_found
        if isinstance(entry, Mapping) and isinstance(entry.get("name"), str)
    }


def _find_duplicates(documents: Sequence[tuple[Path, Mapping[str, Any]]]) -> list[str]:
    """Return a problem for each name that two files define: their order would decide which definition counts."""
    problems: list[str] = []
    first: dict[tuple[str, str], Path] = {}
    for path, data in documents:
        for kind in ("models", "casts"):
            entries_of_kind = data.get(kind)
            for name in sorted(
                set(validation.list_names(entries_of_kind, "name") if isinstance(entries_of_kind, list) else ())
            ):
                if (other := first.setdefault((kind, name), path)) is not path:
                    problems.append(
                        f"{json_lines.format_path(path)}: {kind}: {name!r} is also in {json_lines.format_path(other)}"
                    )
    return problems


def _load_document(path: Path) -> tuple[dict[str, Any], list[str]]:
    """Return the JSON object in a file, and a list of problems.

    If it cannot be parsed, the object is empty and the problem gives the reason.
    """
    text = ""
    try:
        text = path.read_text(encoding="utf-8")
        data = json.loads(
            text, parse_constant=json_lines.reject_constant, object_pairs_hook=json_lines.reject_duplicates
        )
        # Serialised again for the check, because the file may contain unpaired surrogates and NUL in escaped form.
        _check_storable(json.dumps(data, ensure_ascii=False, allow_nan=False))
    except OSError as error:
        return {}, [f"{path}: cannot be read: {error.strerror}"]
    except (ValueError, RecursionError) as error:
        return {}, [json_lines.describe_invalid_json(path, text, error)]
    if not isinstance(data, dict) or not data:
        return {}, [
            f"{json_lines.format_path(path)}:1: must contain one object with {', '.join(KINDS)} or some of them"
        ]
    return data, []


def _check_storable(text: str) -> None:
    """Raise ValueError for unpaired surrogates and NUL, which no database stores."""
    text.encode()
    if "\\u0000" in text:
        raise ValueError("contains the character NUL")
