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


LABELS = ("id", "truth", "code", "planted", "decidable", "experiment")


def find_all(data):
    return check_transition(data).findings


@pytest.fixture(scope="module")
def findings():
    """Return the findings of every line, in their order."""
    return [find_all(data) for data in LINES]


def test_checker_ignores_labels_and_reasoning(findings):
    rng = random.Random(7)
    for number, (data, expected) in enumerate(zip(LINES, findings, strict=True)):
        other = copy.deepcopy(data)
        if number % 2:
            other["outcome"]["reasoning"] = rng.choice(["", "SECRET: the volume is wrong, see MAT-TEST0001", None, 7])
            other |= {key: rng.choice(["type2", "correct", "", None, "SECRET: L02"]) for key in LABELS}
        else:
            for key in LABELS:
                other.pop(key, None)
            del other["outcome"]["reasoning"]
        assert find_all(other) == expected


def test_checker_ignores_the_order_of_keys(findings):
    def shuffled(value, rng):
        if isinstance(value, dict):
            return {key: shuffled(value[key], rng) for key in rng.sample(sorted(value), len(value))}
        return [shuffled(one, rng) for one in value] if isinstance(value, list) else value

    for data, expected in list(zip(LINES, findings, strict=True))[:200]:
        assert find_all(shuffled(data, random.Random(3))) == expected


def test_checker_ignores_the_order_of_lines(findings):
    mixed = random.Random(5).sample(list(zip(LINES, findings, strict=True)), 200)
    text = "\n".join(json.dumps(data) for data, _ in mixed).encode()
    reports = [line.report for line in checks.check_lines(io.BytesIO(text))]
    assert [report.findings for report in reports] == [expected for _, expected in mixed]


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
