"""No line may stop the checker, block it, or send control codes to a terminal."""

import copy
import io
import json
import random

import pytest

from simulation.checker import TransitionError, check_transition, checks
from simulation.management.commands.check_transitions import escape_for_terminal
from tests.simulation.checker.bases import BASES
from tests.support.effort import takes_under

NASTY = [
    None, True, 0, -1, 10**400, 1e308, -1e308, float("inf"), float("nan"), "", "\0", "NaN", "1e99 mL", "9" * 5000 + " mL",
    "-" * 3000, "1:" * 2000, "((((" * 500, "a" * 20000, "9**9**9 m", "\ud800", "\u202emL", [], {}, [[]], {"value": None, "unit": "mL"},
    {"value": "1e9", "unit": "mL"}, ["1 mL", "2 mL"], "٣ mL", "0 mL", "1 x 10^99 cells/mL", "1 x 10^-99 cells/mL", "pH " * 300, "1/0", "1:0",
]  # fmt: skip


def iter_paths(value, path=()):
    if path:
        yield path
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from iter_paths(inner, (*path, key))


@pytest.mark.parametrize("name", sorted(BASES))
def test_checker_survives_any_value_in_any_field(name):
    rng = random.Random(name)
    for _ in range(60):
        data = copy.deepcopy(BASES[name])
        for path in rng.sample(sorted(iter_paths(data), key=str), 3):
            parent = data
            try:
                for key in path[:-1]:
                    parent = parent[key]
                parent[path[-1]] = copy.deepcopy(rng.choice(NASTY))
            except (TypeError, KeyError, IndexError):
                continue
        try:
            report = check_transition(data)
        except TransitionError:
            continue
        json.dumps(report.to_json())


@pytest.mark.parametrize(
    "raw",
    [b'{"a":' * 100_000, b"[" * 200_000, b"\xff\xfe", b"NaN", b'{"x": NaN}', b"1" * 6000, b'"text"', b"[]", b"{}", b"{\x00}",
     b'{"action": {"name": 7}, "outcome": {}, "input_materials": []}',
     b'{"action": {"name": "Mix"}, "outcome": [], "input_materials": []}',
     b'{"action": {"name": "Mix"}, "outcome": {"new_materials": "x"}, "input_materials": []}',
     b'{"action": {"name": "Mix"}, "outcome": {}, "input_materials": [1]}'],
)  # fmt: skip
def test_malformed_line_gives_an_error_and_the_next_is_checked(raw):
    good = json.dumps(BASES["mix"]).encode()
    first, second = checks.check_lines(io.BytesIO(raw + b"\n" + good))
    assert first.report is None and first.error and first.number == 1
    assert second.report.verdict == "ok" and second.number == 2


def test_overlong_line_is_skipped(monkeypatch):
    monkeypatch.setattr(checks, "MAX_LINE_BYTES", 5000)
    good = json.dumps(BASES["weight"]).encode()
    assert len(good) < 5000
    first, second = checks.check_lines(io.BytesIO(b"x" * 60_000 + b"\n" + good))
    assert "longer than" in first.error and second.report is not None


def test_plate_of_384_equal_samples_is_checked_in_seconds():
    sample = {"properties": {"volume": "1 mL", "container": "tube"}, "available_for_use": "available_for_further_use"}
    data = {
        "input_materials": [{"barcode": f"MAT-{n:08}", "name": f"Sample {n} of it", **sample} for n in range(384)],
        "action": {"name": "Incubate", "parameters": {"temperature": "37C"}},
        "outcome": {"success": True, "new_materials": [{"name": f"Kept sample {n} of it", **sample} for n in range(384)],
                    "new_observations": [{"description": f"Sample {n} of it", "value": "1 mL"} for n in range(384)]},
    }  # fmt: skip
    assert takes_under(15, lambda: check_transition(data), tries=2)


def test_terminal_control_codes_are_escaped():
    assert escape_for_terminal("a\x1b[2Jb\u202ec\nd") == "a\\x1b[2Jb\\x202ec\\x0ad"
    assert escape_for_terminal({"an": "object"}) == "dict"
