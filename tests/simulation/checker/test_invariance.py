"""Labels, reasoning, the order of lines and keys, and spelling do not affect the findings."""

import copy
import io
import json
import random
from pathlib import Path

import pytest

from simulation.checker import check_transition, checks
from tests.simulation.checker.corpus import iter_episode_lines
from tests.simulation.checker.dialects import DIALECTS, write_in_dialect
from tests.support.data_files import CATALOGUE as TYPES
from tests.support.data_files import load_specs

DERIVED = Path(__file__).parents[3] / "fixtures" / "checker" / "derived.jsonl"
SPECS = list(load_specs().values())
LINES = [json.loads(line) for line in DERIVED.read_text(encoding="utf-8").splitlines()]


def find_all(data):
    return check_transition(data).findings


def test_checker_ignores_labels_and_reasoning():
    rng = random.Random(7)
    for data in LINES:
        other = copy.deepcopy(data)
        other["outcome"]["reasoning"] = rng.choice(["", "SECRET: the volume is wrong, see MAT-TEST0001", None, 7])
        for key in ("id", "truth", "code", "planted", "decidable", "experiment"):
            other[key] = rng.choice(["type2", "correct", "", None, "SECRET: L02"])
        assert find_all(other) == find_all(data)
        for key in ("id", "truth", "code", "planted", "decidable", "experiment"):
            del other[key]
        del other["outcome"]["reasoning"]
        assert find_all(other) == find_all(data)


def test_checker_ignores_the_order_of_keys():
    def shuffled(value, rng):
        if isinstance(value, dict):
            return {key: shuffled(value[key], rng) for key in rng.sample(sorted(value), len(value))}
        return [shuffled(one, rng) for one in value] if isinstance(value, list) else value

    for data in LINES[:200]:
        assert find_all(shuffled(data, random.Random(3))) == find_all(data)


def test_checker_ignores_the_order_of_lines():
    def read(entries):
        text = "\n".join(json.dumps(entry) for entry in entries).encode()
        return {line.data["id"]: line.report for line in checks.check_lines(io.BytesIO(text))}

    mixed = random.Random(5).sample(LINES, len(LINES))
    assert read(mixed) == read(LINES)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.__name__)
def test_checker_gives_the_same_verdict_in_every_dialect(dialect):
    spec = next(spec for spec in SPECS if spec.slug == "caffeine-hplc-analysis")
    for data in iter_episode_lines(spec, TYPES, "protocol", seed=3, twins=True):
        if data.get("code") in (
            None,
            "matter_from_nothing",
            "residual_not_reduced",
            "vessel_too_small",
            "wrong_temperature",
        ):
            assert (
                check_transition(write_in_dialect(data, dialect, hints=True)).verdict == check_transition(data).verdict
            ), data["id"]
