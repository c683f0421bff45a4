"""Bad inputs of every kind of file and option, for comparing error messages between two versions (`bench/same_outputs.py`)."""

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
PROTOCOL = {
    "name": "Comparison", "kind": "transition_plausibility", "seed": 1,
    "sources": [{"cast": "offline", "perturbation": "none", "count": 4}], "ratings_per_item": 2,
}  # fmt: skip
LINE = json.loads((FIXTURES / "checker/handmade.jsonl").read_text(encoding="utf-8").splitlines()[0])
RATINGS = "item,rater,verdict,confidence\n"


class BadInput(NamedTuple):
    """A command and the file it reads; "FILE" in the arguments is the path of the file."""

    name: str
    arguments: Sequence[str]
    content: bytes
    file_name: str = "input.json"


def _change(document: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a copy with another value at a path of keys and indices."""
    changed = copy.deepcopy(dict(document))
    *above, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    inner: Any = changed
    for part in above:
        inner = inner[part]
    inner[last] = value
    return changed


def _encode(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode()


def _list_protocols() -> Iterator[tuple[str, bytes]]:
    documents = {
        "not-an-object": [], "empty": {}, "unknown-field": PROTOCOL | {"colour": "red"},
        "unknown-kind": PROTOCOL | {"kind": "other"}, "count-is-text": _change(PROTOCOL, "sources.0.count", "four"),
        "count-is-true": _change(PROTOCOL, "sources.0.count", True), "count-is-negative": _change(PROTOCOL, "sources.0.count", -1),
        "unknown-perturbation": _change(PROTOCOL, "sources.0.perturbation", "huge"), "unknown-cast": _change(PROTOCOL, "sources.0.cast", "nobody"),
        "source-twice": PROTOCOL | {"sources": PROTOCOL["sources"] * 2}, "sources-is-text": PROTOCOL | {"sources": "offline"},
        "control-character": PROTOCOL | {"name": "a\x07b"}, "long-name": PROTOCOL | {"name": "x" * 400}, "slug": PROTOCOL | {"slug": "Not A Slug"},
        "many": PROTOCOL | {"seed": -1, "ratings_per_item": 0, "raters": "x", "display": {"layouts": ["round"], "by": "nobody"}, "experiments": ["none"]},
        "display": PROTOCOL | {"display": {"layouts": [], "context": ["yes"], "marks": "off"}},
        "crossover": PROTOCOL | {"design": "crossover"}, "stop-rule": PROTOCOL | {"stop": {"rule": "never"}},
        "paragraphs": PROTOCOL | {"guide": 3, "questions": [1]},
    }  # fmt: skip
    yield from ((name, _encode(document)) for name, document in documents.items())
    yield from (
        ("json", b'{"name": "a",\n "kind": }'),
        ("nan", b'{"seed": NaN}'),
        ("utf-16", '{"name": "a"}'.encode("utf-16")),
    )


def _list_item_lines() -> Iterator[tuple[str, bytes]]:
    line = LINE | {"id": "one", "source": "elsewhere"}
    changes = {
        "no-id": ("id", ""), "truth": ("truth", "perhaps"), "action-name": ("action.name", 3), "parameters": ("action.parameters", []),
        "materials": ("input_materials", {}), "material-type": ("input_materials.0.material_type", "solid"),
        "available": ("input_materials.0.available_for_use", None), "properties": ("input_materials.0.properties", "red"),
        "property-list": ("input_materials.0.properties.volume", ["5 mL"]), "invisible": ("input_materials.0.name", "a\u200bb"),
        "half-surrogate": ("input_materials.0.name", "a\ud800"), "outcome": ("outcome", None), "field": ("field", "new_materials[99].x"),
        "pair": ("pair", 7), "perturbation": ("perturbation", "huge"), "barcode": ("input_materials.0.barcode", 5), "goal": ("goal", 1),
    }  # fmt: skip
    yield from ((name, json.dumps(_change(line, path, value)).encode()) for name, (path, value) in changes.items())
    text = _encode(line)
    yield from (
        ("twice", text + b"\n" + text), ("key-twice", b'{"id": 1, "id": 2}'), ("infinity", b'{"id": Infinity}'), ("array", b"[1]"),
        ("json", b'{"id": "a"\n{"id": "b"}'), ("empty", b""), ("latin-1", '{"id": "é"}'.encode("latin-1")), ("nul", b'{"id": "\\u0000"}'),
        ("deep", b"[" * 5000),
    )  # fmt: skip


def _list_rating_tables() -> Iterator[tuple[str, bytes]]:
    tables = {
        "no-columns": "a,b\n1,2\n", "no-rater": "item,verdict,confidence\nx,1,3\n", "column-twice": "item,item,rater,verdict\n",
        "verdict": RATINGS + "x,R1,maybe,3\n", "confidence": RATINGS + "x,R1,1,9\n", "confidence-text": RATINGS + "x,R1,1,sure\n",
        "cells": RATINGS + "x,R1,1\nx,R1,1,3,4,5\n", "twice": RATINGS + "x,R1,1,3\nx,R1,0,3\n", "blank-rater": RATINGS + "x,,1,3\n",
        "quote": RATINGS + '"x,R1,1,3\n', "empty": "", "only-header": RATINGS, "nul": RATINGS + "x\0,R1,1,3\n",
        "time": "item,rater,verdict,confidence,submitted_at,seconds,simulated\nx,R1,1,3,yesterday,-3,perhaps\n",
    }  # fmt: skip
    yield from ((name, text.encode()) for name, text in tables.items())
    yield from (("utf-16", RATINGS.encode("utf-16")), ("latin-1", (RATINGS + "é,R1,1,3\n").encode("latin-1")))


def _list_model_files() -> Iterator[tuple[str, bytes]]:
    models = json.loads((FIXTURES / "models.json").read_text(encoding="utf-8"))
    casts = json.loads((FIXTURES / "casts.json").read_text(encoding="utf-8"))
    for name, path, value in (
        ("provider", "models.0.provider", "nobody"), ("option", "models.0.options.colour", 1), ("price", "models.0.prices.0.input", 1.25),
        ("negative-price", "models.0.prices.0.input", "-1"), ("date", "models.0.prices.0.effective_from", "yesterday"),
        ("context-limit", "models.0.context_limit", "many"), ("thinking", "models.0.options.thinking", "deep"), ("prices", "models.0.prices", {}),
        ("unknown", "models.0.colour", "red"), ("name", "models.0.name", ""), ("twice", "models.0.name", models["models"][1]["name"]),
    ):  # fmt: skip
        yield f"models-{name}", _encode(_change(models, path, value))
    for name, path, value in (
        ("model", "casts.0.agent.model", "nobody"), ("temperature", "casts.0.agent.params.temperature", 0.7),
        ("tokens", "casts.0.agent.params.max_tokens", -5), ("scaffold", "casts.0.agent.scaffold", "steel"), ("history", "casts.0.agent.history.kind", "none"),
        ("panel", "casts.0.panel", [{}]), ("role", "casts.0.judge", {}), ("no-agent", "casts.0.agent", None),
    ):  # fmt: skip
        yield f"casts-{name}", _encode(_change(casts, path, value))
    yield from (
        ("json", b'{"models": [\n{"name": "a",}]}'),
        ("key-twice", b'{"models": [], "models": []}'),
        ("array", b"[]"),
    )


def _list_transitions() -> Iterator[tuple[str, bytes]]:
    for name, path, value in (
        ("action", "action", "Mix"), ("created-at", "input_materials.0.created_at", "now"), ("name", "input_materials.0.name", None),
        ("materials", "outcome.new_materials", {}), ("observations", "outcome.observations", [1]), ("action-materials", "action.materials", [3]),
    ):  # fmt: skip
        yield name, _encode(_change(LINE, path, value))
    yield from (("json", b"{"), ("nan", b'{"id": NaN}'), ("empty", b""), ("key-twice", b'{"id": 1, "id": 2}'))


def list_bad_inputs() -> Iterator[BadInput]:
    """Yield every bad input."""
    commands = (
        ("protocol", ("create_study", "FILE", "--json"), _list_protocols()),
        ("items", ("import_items", "try-it", "FILE", "--dry-run"), _list_item_lines()),
        ("ratings", ("import_ratings", "try-it", "FILE", "--dry-run"), _list_rating_tables()),
        ("agreement", ("agreement", "FILE"), _list_rating_tables()),
        ("models", ("load_models", "FILE"), _list_model_files()),
        ("transitions", ("check_transitions", "FILE"), _list_transitions()),
    )
    for kind, arguments, files in commands:
        for name, content in files:
            yield BadInput(f"{kind}/{name}", arguments, content)
    for name, arguments in (
        ("no-file", ("import_items", "try-it", "missing.jsonl")), ("no-study", ("import_items", "nothing", "FILE")),
        ("closed-study", ("import_items", "demo", "FILE")), ("no-run", ("export_episodes", "nothing", "FILE")),
        ("no-archive-folder", ("export_study", "demo", "/proc/x.zip")), ("not-unblinded", ("export_study", "try-it", "FILE.zip")),
        ("resamples", ("agreement", "FILE", "--resamples", "-1")), ("categories", ("agreement", "FILE", "--categories", "")),
        ("cast", ("run_episodes", "--experiment", "all", "--cast", "nobody")), ("experiment", ("run_episodes", "--experiment", "tea")),
        ("attempts", ("run_episodes", "--experiment", "all", "--attempts", "0")), ("scope", ("api_token", "create", "admin", "--scope", "x")),
        ("days", ("api_token", "create", "admin", "--name", "a", "--scope", "studies:read", "--days", "0")),
    ):  # fmt: skip
        yield BadInput(f"options/{name}", arguments, _encode(LINE))


def list_bad_laboratory_files() -> Iterator[tuple[str, str, bytes]]:
    """Yield the name, the path inside `fixtures/` and the content of data files with one wrong value."""
    for path, field, value in (
        ("actions/Mix.json", "duration", "long"), ("actions/Mix.json", "fidelity", "high"), ("actions/Mix.json", "inputs", [{}]),
        ("actions/Mix.json", "kind", 3), ("actions/Mix.json", "colour", 1), ("experiments/caffeine-hplc-analysis.json", "materials.0.properties", []),
        ("experiments/caffeine-hplc-analysis.json", "materials.0.environmental_condition", "warm"), ("experiments/caffeine-hplc-analysis.json", "rubric", {}),
        ("experiments/caffeine-hplc-analysis.json", "max_steps", 0), ("experiments/caffeine-hplc-analysis.json", "slug", "Other"),
        ("experiments/caffeine-hplc-analysis.json", "rubric.0.text", ""), ("experiments/caffeine-hplc-analysis.json", "materials.0.key", None),
    ):  # fmt: skip
        document = json.loads((FIXTURES / path).read_text(encoding="utf-8"))
        yield f"{Path(path).stem}-{field}", path, _encode(_change(document, field, value))
    yield "Mix-json", "actions/Mix.json", b'{"name": "Mix",,}'
    yield "Mix-key-twice", "actions/Mix.json", b'{"name": "Mix", "name": "Mix"}'
