"""Draws of the hidden truth: distributions, references, and every mistake reported at its place."""

import copy
import json
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest

from simulation.lab import experiments
from simulation.lab.errors import CatalogueError, LabError
from simulation.lab.truths import draws, truth_seeds
from tests.support.data_files import CATALOGUE

REPOSITORY = Path(__file__).parents[3]
SOURS = {
    "slug": "sours",
    "draws": {
        "strength": {"about": "acid", "log_uniform": ["1 mM", "100 mM"], "reference": "10 mM"},
        "volume": {"about": "fill", "uniform": ["4 mL", "6 mL"], "digits": 2, "reference": "5 mL"},
        "efficiency": {"about": "share converted", "uniform": ["0.6", "0.9"], "reference": "0.8"},
        "mass": {
            "about": "of each piece", "uniform": ["1 mg", "3 mg"], "each": ["left", "right"],
            "reference": {"left": "2 mg", "right": "1.5 mg"},
        },
        "genotype": {
            "about": "of each fish", "permutation": ["wild", "mutant", "wild"], "each": ["left", "right"],
            "fields": {"wild": {"call": "C only"}, "mutant": {"call": "T only"}},
        },
        "colour": {"about": "of the lid", "choice": ["red", "blue"], "reference": "blue"},
    },
    "materials": [{"contents": {"acid": {"concentration": "$strength"}}, "properties": {"volume": "$volume"}}],
    "truth": {
        "reactions": [
            {"ratio": "1 - $efficiency"}, {"ratio": "$efficiency * 0.5"}, {"makes": "$mass.left + 0.25"},
            {"makes": "$mass.left - $mass.right"}, {"makes": "$efficiency * 640 counts + 640 counts"}, {"makes": "$efficiency * $strength"},
        ],
        "lookups": [{"values": {"left": "$genotype.left.call", "right": "$genotype.right.call", "lid": "$colour"}}],
    },
    "goal": "costs $strength",
}  # fmt: skip


def with_draw(name, to):
    data = copy.deepcopy(SOURS)
    data["draws"][name] = {"about": "x"} | to
    return data


def test_reference_values_fill_materials_and_truth():
    filled = draws.fill_references(SOURS, draws.draw_values(SOURS, None))
    assert filled["materials"] == [{"contents": {"acid": {"concentration": "10 mM"}}, "properties": {"volume": "5 mL"}}]
    # 1 - 0.8; 0.8 x 0.5; 2 mg + 0.25 mg; 2 mg - 1.5 mg; 0.8 x 640 + 640; 0.8 x 10 mM
    values = [next(iter(reaction.values())) for reaction in filled["truth"]["reactions"]]
    assert values == ["0.2", "0.4", "2.25 mg", "0.5 mg", "1152 counts", "8 mM"]
    assert filled["truth"]["lookups"][0]["values"] == {"left": "C only", "right": "T only", "lid": "blue"}
    assert filled["goal"] == "costs $strength"


def test_valid_draws_have_no_problem():
    assert draws.find_draw_problems(SOURS) == []
    assert draws.find_draw_problems({"slug": "x", "materials": [], "truth": {}}) == []


def test_drawn_numbers_lie_in_their_range_with_the_declared_digits():
    drawn = [draws.draw_values(SOURS, seed) for seed in range(2000)]
    strengths = sorted(Decimal(values["strength"].removesuffix(" mM")) for values in drawn)
    volumes = sorted(Decimal(values["volume"].removesuffix(" mL")) for values in drawn)
    assert 1 <= strengths[0] < Decimal("1.1") and 95 < strengths[-1] <= 100
    # The median of a log-uniform variable is the geometric mean, 10; that of a uniform one the mean, 5. The standard
    # error of a sample median of 2,000 is 0.5/sqrt(2000)/density = 1.1 % of the width; four of these are allowed.
    assert abs(strengths[1000].log10() - 1) < Decimal("0.09") and abs(volumes[1000] - 5) <= Decimal("0.1")
    assert all(volume == round(volume, 1) for volume in volumes)
    assert max(len(str(strength).replace(".", "").strip("0")) for strength in strengths) <= 3


def test_choice_and_permutation_are_equally_likely():
    drawn = [draws.draw_values(SOURS, seed) for seed in range(3000)]
    reds = sum(values["colour"] == "red" for values in drawn)
    pairs = Counter((values["genotype"]["left"], values["genotype"]["right"]) for values in drawn)
    # Of the six orders of wild, mutant, wild, two begin with each of these pairs. Standard deviations: 27 and 26.
    assert abs(reds - 1500) < 110
    assert set(pairs) == {("wild", "mutant"), ("wild", "wild"), ("mutant", "wild")}
    assert all(abs(count - 1000) < 105 for count in pairs.values())


def test_draw_depends_on_seed_experiment_and_name_and_on_nothing_else():
    values = draws.draw_values(SOURS, 7)
    reversed_fields = {**SOURS, "draws": dict(reversed(SOURS["draws"].items()))}
    assert draws.draw_values(reversed_fields, 7) == values
    assert draws.draw_values({**SOURS, "slug": "other"}, 7)["strength"] != values["strength"]
    assert draws.draw_values(SOURS, 8)["strength"] != values["strength"]
    fewer = {**SOURS, "draws": {"strength": SOURS["draws"]["strength"]}}
    assert draws.draw_values(fewer, 7) == {"strength": values["strength"]}


def test_draw_is_the_same_in_another_process_with_another_hash_seed():
    script = "import json, sys; from simulation.lab.truths import draws; print(json.dumps(draws.draw_values(json.load(sys.stdin), 7)))"
    result = subprocess.run(
        [sys.executable, "-c", script], input=json.dumps(SOURS), capture_output=True, text=True, check=True,
        cwd=REPOSITORY, env={"PYTHONHASHSEED": "12345", "PATH": ""},
    )  # fmt: skip
    assert json.loads(result.stdout) == draws.draw_values(SOURS, 7)


@pytest.mark.parametrize(
    ("name", "draw", "problem"),
    [
        ("strength", {"uniform": ["1 mM", "5 µM"], "reference": "1 mM"}, "draws.strength.uniform: is ['1 mM', '5 µM']; allowed: two numbers in one unit"),
        ("strength", {"log_uniform": ["0 mM", "5 mM"], "reference": "1 mM"}, "draws.strength.log_uniform: is ['0 mM', '5 mM']; allowed: above zero"),
        ("strength", {"uniform": ["1 mM", "5 mM"], "reference": "6 mM"}, "draws.strength.reference: is '6 mM'; allowed: from 1 mM to 5 mM"),
        ("strength", {"uniform": ["1 mM", "5 mM"]}, "draws.strength.reference: is None; allowed: from 1 mM to 5 mM"),
        ("strength", {"uniform": ["1 mM", "5 mM"], "choice": ["a", "b"], "reference": "a"}, "draws.strength: needs exactly one of uniform, log_uniform, choice, permutation"),
        ("colour", {"choice": ["red"], "reference": "red"}, "draws.colour.choice: is ['red']; allowed: a list of at least two texts"),
        ("colour", {"choice": ["red", "blue"], "reference": "green"}, "draws.colour.reference: is 'green'; allowed: red, blue"),
        ("genotype", {"permutation": ["a", "b"], "each": ["left", "right", "lid"]}, "draws.genotype.each: is ['left', 'right', 'lid']; allowed: a list of at most 2 names"),
        ("genotype", {"permutation": ["a", "b"]}, "draws.genotype.each: is missing; allowed: a list of at most 2 names"),
        ("genotype", {"permutation": ["a", "b"], "each": ["left", "right"], "fields": {"a": {"call": "C"}}}, "draws.genotype.fields: is ['a']; allowed: one entry for each of a, b"),
        ("genotype", {"permutation": ["a", "b"], "each": ["left", "right"], "fields": {"a": {"call": "C"}, "b": {"c": "T"}}}, "draws.genotype.fields: all values need the same fields"),
        ("mass", {"uniform": ["1 mg", "3 mg"], "each": ["left", "right"], "reference": {"left": "2 mg"}}, "draws.mass.reference: is {'left': '2 mg'}; allowed: an object with left, right"),
        ("lid", {"choice": ["a", "b"], "reference": "a"}, "draws.lid: is never used; allowed: references like $lid"),
        ("volume", {"uniform": ["4 mL", "6 mL"], "digits": 0, "reference": "5 mL"}, "draws.volume.digits: is 0; allowed: a whole number from 1 to 8"),
    ],
)  # fmt: skip
def test_wrong_draw_is_reported_with_what_is_allowed(name, draw, problem):
    [found, *_] = draws.find_draw_problems(with_draw(name, draw))
    assert found.startswith(problem)


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        (
            "$strenght",
            "allowed: $strength, $volume, $efficiency, $mass, $genotype, $colour, alone or in sums and products",
        ),
        ("about $strength", "allowed: $strength, $volume"),
        ("$mass", "allowed: $mass.left, $mass.right"),
        ("$genotype.left", "allowed: $genotype.left.call"),
        ("$genotype.left.name", "allowed: $genotype.left.call"),
        ("$strength.left", "allowed: $strength"),
        ("$strength * $volume", "allowed: units that fit, not 'mM' * 'mL'"),
        ("$strength - $volume", "allowed: units that fit, not 'mM' - 'mL'"),
        ("$colour * 2", "allowed: numbers on both sides of an operation, not 'blue'"),
    ],
)
def test_wrong_reference_is_reported_at_its_place(text, allowed):
    data = copy.deepcopy(SOURS)
    data["truth"]["reactions"].append({"ratio": text})
    [problem] = draws.find_draw_problems(data)
    assert problem.startswith(f"truth.reactions[6].ratio: is {text!r}; {allowed}")


def test_problem_of_a_draw_in_a_file_has_its_line(tmp_path):
    text = (REPOSITORY / "fixtures/experiments/caffeine-hplc-analysis.json").read_text()
    path = tmp_path / "caffeine-hplc-analysis.json"
    path.write_text(text.replace('"concentration": "$tea"', '"concentration": "$the"'))
    line = path.read_text().split("\n").index('          "concentration": "$the",') + 1
    with pytest.raises(
        CatalogueError, match=rf"caffeine-hplc-analysis\.json:{line}: .*caffeine\.concentration: is '\$the'"
    ):
        experiments.load_experiment(path, CATALOGUE)


def test_specification_has_the_truth_of_its_seed_in_ledger_and_truth():
    spec = experiments.load_experiment(REPOSITORY / "fixtures/experiments/caffeine-hplc-analysis.json", CATALOGUE)
    assert spec.drawn == {"coffee": "0.412 mg/mL", "tea": "0.187 mg/mL", "drink": "0.318 mg/mL"}
    other = spec.draw_truth(5)
    assert other.truth_seed == 5 and other.drawn != spec.drawn
    # 50 mL contain 50,000 µg for each mg/mL; the ledger counts µg.
    amounts = [Decimal(draft.ledger["components"]["caffeine"]["amount"]) for _, draft in other.materials[:3]]
    written = [Decimal(other.drawn[name].removesuffix(" mg/mL")) for name in ("coffee", "tea", "drink")]
    assert amounts == [50_000 * number for number in written]
    assert other.draw_truth(None).initial_materials() == spec.initial_materials()


def test_no_seed_belongs_to_two_splits():
    ranges = list(truth_seeds.SPLITS.values())
    assert sum(map(len, ranges)) == len(set().union(*ranges))
    assert min(map(len, ranges)) >= 200
    assert truth_seeds.get_truth_seed("validation", 3) == 1_000_003
    assert truth_seeds.get_truth_seed("validation", 1_003) == 1_000_003
    assert truth_seeds.get_truth_seed("reference", 3) is None
    assert [truth_seeds.find_split(seed) for seed in (None, 0, 1_000_999, 2_000_000, 1_001_000)] == [
        "reference", "train", "validation", "test", "",
    ]  # fmt: skip
    with pytest.raises(LabError, match="allowed: reference, train, validation, test"):
        truth_seeds.get_truth_seed("dev", 0)
