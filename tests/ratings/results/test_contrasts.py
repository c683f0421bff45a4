"""Contrasts of a study: which exist, on which ratings, and whether known differences are recovered."""

import random
import uuid
from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from ratings.raters.simulated_raters import Skill, judge_transition
from ratings.results.analyses import rating_columns, sections_contrasts
from ratings.results.analyses.sections_machines import Machine
from ratings.results.analyses.tables import list_records
from ratings.stats import mrmc, mrmc_comparison
from tests.support.rating_rows import build_rating_row

GPT, QWEN = {"source": "gpt-5"}, {"source": "qwen-3"}
RATERS = ("R1", "R2", "R3", "R4")


def planted(error: str) -> dict[str, str]:
    return {"perturbation": error, "reference": "planted"}


def build_rows(**fields):
    """Return four raters' ratings of 6 steps per simulator, each with a subtle twin. All twins of qwen-3 are found, those of gpt-5 by two raters."""
    rows = []
    for simulator, first in ((GPT, 0), (QWEN, 100)):
        for step in range(6):
            pair = {"pair": uuid.UUID(int=5000 + first + step)}
            for at, rater in enumerate(RATERS):
                rows.append(build_rating_row(first + step + 1, rater, True, 4, **simulator, **pair, **fields))
                found = simulator is QWEN or at < 2
                twin = {**simulator, **pair, **planted("subtle"), **fields}
                rows.append(build_rating_row(first + step + 51, rater, not found, 3, **twin))
    return rows


def list_contrasts(rows, machines=(), conditions=None):
    made = sections_contrasts.build_contrast_tables(
        rating_columns.build_analysis_data(rows), machines, conditions or {}
    )
    return list_records(made["contrasts"])


def find_contrast(lines, family, first, second, quantity):
    (found,) = [
        line
        for line in lines
        if (line["family"], line["first"], line["second"], line["quantity"]) == (family, first, second, quantity)
    ]
    return found


def test_contrasts_compare_sources_simulators_and_error_types() -> None:
    lines = list_contrasts(build_rows())
    twins = find_contrast(lines, "sources", "gpt-5, subtle error", "qwen-3, subtle error", "rate")
    # 12 of 24 twins of gpt-5 are called plausible, none of qwen-3's.
    assert (twins["first_value"], twins["second_value"], twins["difference"]) == (0.5, 0.0, 0.5)
    assert (twins["items"], twins["raters"], twins["ratings"]) == (12, 4, 48)
    assert (twins["shared_items"], twins["shared_raters"]) == (0, 4)
    area = find_contrast(lines, "simulators", "gpt-5, subtle error", "qwen-3, subtle error", "AUC")
    # R1 and R2 detect every twin: area 1. R3 and R4 call all of gpt-5 plausible, twins with less confidence: also area 1.
    assert (area["first_value"], area["second_value"], area["difference"]) == (1, 1, 0)
    assert find_contrast(lines, "error types", "unperturbed", "subtle error", "rate")["first_value"] == 1


def test_contrast_variance_treats_an_original_and_its_twins_as_one_item() -> None:
    lines = list_contrasts(build_rows())
    paired = find_contrast(lines, "error types", "gpt-5, unperturbed", "gpt-5, subtle error", "rate")
    assert (paired["items"], paired["shared_items"]) == (6, 6)


def test_holm_p_values_are_adjusted_within_family_and_quantity() -> None:
    lines = list_contrasts(build_rows())
    for family, quantity in {(line["family"], line["quantity"]) for line in lines}:
        own = sorted(
            (line["p"], line["p_holm"])
            for line in lines
            if (line["family"], line["quantity"]) == (family, quantity) and line["p"] is not None
        )
        if own:
            assert own[0][1] == pytest.approx(min(1, own[0][0] * len(own)))
            assert all(adjusted >= raw for raw, adjusted in own)
    assert all((line["p"] is None) == (line["low"] is None) for line in lines)
    assert all(line["reason"] for line in lines if line["low"] is None)


def test_contrasts_name_the_reference_unless_they_compare_plain_rates() -> None:
    lines = list_contrasts(build_rows())
    assert {line["reference_name"] for line in lines if line["quantity"] == "rate"} == {""}
    assert {line["reference_name"] for line in lines if line["quantity"] != "rate"} == {"planted"}


def test_contrast_of_first_and_final_verdicts_compares_the_two_verdicts_of_each_rating() -> None:
    # Everybody calls two twins of four wrong after seeing the balance, and none before.
    rows = [
        build_rating_row(item, rater, item > 2, first_verdict=True, first_confidence=3, **planted("obvious"))
        for item in (1, 2, 3, 4)
        for rater in RATERS
    ]
    lines = list_contrasts(rows)
    rate = find_contrast(lines, "first and final verdict", "final verdict", "first verdict", "rate")
    assert (rate["first_value"], rate["second_value"], rate["ratings"]) == (0.5, 1.0, 32)
    correct = find_contrast(lines, "first and final verdict", "final verdict", "first verdict", "correct")
    assert correct["difference"] == 0.5
    assert not [line for line in list_contrasts(build_rows()) if line["family"] == "first and final verdict"]


def test_contrasts_compare_display_arms_if_there_are_several() -> None:
    rows = [*build_rows(layout="aligned")[:48], *build_rows(layout="plain")[48:]]
    lines = list_contrasts(rows)
    arms = find_contrast(lines, "display arms", "layout: aligned", "layout: plain", "rate")
    assert (arms["first_value"], arms["second_value"]) == (0.75, 0.5)
    assert (
        find_contrast(lines, "display arms", "layout: aligned", "layout: plain", "AUC")["reference_name"] == "planted"
    )
    assert not [line for line in list_contrasts(build_rows()) if line["family"] == "display arms"]


def test_contrast_compares_each_experiment_with_the_others() -> None:
    rows = [
        build_rating_row(item, rater, item > 4 or rater != "R1", experiment="caffeine" if item <= 4 else "zebrafish")
        for item in range(1, 9)
        for rater in RATERS
    ]
    rows += [build_rating_row(9, rater, False, experiment="caffeine", **planted("obvious")) for rater in RATERS]
    lines = list_contrasts(rows)
    caffeine = find_contrast(lines, "experiments", "caffeine", "the others", "specificity")
    assert (caffeine["first_value"], caffeine["second_value"], caffeine["items"]) == (0.75, 1.0, 8)
    assert caffeine["reference_name"] == "planted"
    # The rate is over all items, of which one has a planted error: 12 of 20 against 16 of 16.
    every = find_contrast(lines, "experiments", "caffeine", "the others", "rate")
    assert (every["first_value"], every["second_value"], every["items"]) == (0.6, 1.0, 9)


def test_contrast_of_two_machines_uses_the_items_both_judged() -> None:
    rows = build_rows()
    planted_items = {row.item for row in rows if row.reference == "planted"}
    items = sorted({str(row.item) for row in rows})
    strict = dict.fromkeys(items, 0)
    exact = {code: int(uuid.UUID(code) not in planted_items) for code in items[:-1]}
    machines = [Machine("strict", "machine", strict, 0), Machine("exact", "machine", exact, 0)]
    lines = list_contrasts(rows, machines)
    right = find_contrast(lines, "raters and machines", "strict", "exact", "correct")
    # Of 23 items that both judged, 12 or 11 have a planted error; only those does the strict one get right.
    wrong = sum(uuid.UUID(code) in planted_items for code in exact)
    assert (right["first_value"], right["second_value"]) == (pytest.approx(wrong / 23), 1.0)
    assert right["target"] == "these two machines"
    assert find_contrast(lines, "raters and machines", "strict", "exact", "sensitivity")["difference"] == 0
    assert find_contrast(lines, "raters and machines", "strict", "exact", "specificity")["difference"] == -1


def test_contrast_of_areas_treats_versions_of_a_case_as_one_item_if_a_rater_saw_two() -> None:
    rng = np.random.default_rng(4)
    rows = []
    for step in range(12):
        for error, first in (("", 1), ("obvious", 101), ("subtle", 201)):
            for screen in (0, 1):
                for at, rater in enumerate(RATERS):
                    if screen and at > 1:
                        continue  # two raters missed the second session
                    fields = {**GPT, "pair": uuid.UUID(int=9000 + step), **(planted(error) if error else {})}
                    chance = {"": 0.85, "obvious": 0.1, "subtle": 0.6}[error]
                    verdict, confidence = bool(rng.random() < chance), int(rng.integers(1, 6))
                    rows.append(build_rating_row(first + 20 * screen + step, rater, verdict, confidence, **fields))
    area = find_contrast(list_contrasts(rows), "error types", "obvious error", "subtle error", "AUC")
    table = rating_columns.build_analysis_data(rows).table
    codes, names = table.factors["error"]
    sides = [
        table.select_ratings((table.reference == 1) | (codes == names.index(error))) for error in ("obvious", "subtle")
    ]
    columns = [mrmc.build_rater_columns(side, side.signed_ratings)[0] for side in sides]
    expected = mrmc_comparison.compare_conditions(*columns).test
    assert (area["low"], area["high"]) == (pytest.approx(expected.low), pytest.approx(expected.high))


def test_contrast_of_a_machine_with_raters_uses_the_items_both_judged() -> None:
    verdicts = {str(uuid.UUID(int=item)): 1 for item in range(51, 57)}  # gpt-5's twins, all called plausible
    lines = list_contrasts(build_rows(), [Machine("checker", "checker", {**verdicts, "unknown": 0}, 0)])
    rate = find_contrast(lines, "raters and machines", "checker", "raters", "rate")
    assert (rate["first_value"], rate["second_value"], rate["items"], rate["ratings"]) == (1.0, 0.5, 6, 30)
    assert find_contrast(lines, "raters and machines", "checker", "raters", "correct")["difference"] == -0.5


def test_contrast_compares_each_rater_with_the_others_on_shared_items() -> None:
    rows = [*build_rows(), build_rating_row(900, "R1", False)]
    mine = find_contrast(list_contrasts(rows), "raters", "R1", "the others", "rate")
    # Item 900 is R1's alone. R1 calls 12 of 24 plausible; the others 12 (R2) and 18 (R3, R4) of 24.
    assert (mine["first_value"], mine["second_value"]) == (0.5, pytest.approx(48 / 72))
    assert mine["target"] == "this rater"


@pytest.mark.parametrize("each", [1, 3])
def test_contrast_without_shared_raters_or_items_states_the_reason(each) -> None:
    rows = [
        build_rating_row(
            item, f"R{rater + (0 if item < 5 else each)}", (item + rater) % 3 > 0, **(GPT if item < 5 else QWEN)
        )
        for item in range(1, 9)
        for rater in range(1, each + 1)
    ]
    line = find_contrast(list_contrasts(rows), "sources", "gpt-5", "qwen-3", "rate")
    assert "no rater and no item in common" in line["reason"]
    assert ("fewer than three raters" in line["reason"], line["low"] is None) == ((each < 3,) * 2)


def test_simulators_are_compared_only_for_error_types_that_both_have() -> None:
    lines = list_contrasts(
        [
            *build_rows(),
            *(build_rating_row(800 + item, "R1", False, 5, **GPT, **planted("obvious")) for item in range(9)),
        ]
    )
    assert {line["first"] for line in lines if line["family"] == "simulators"} == {"gpt-5, subtle error"}


def test_contrast_does_not_label_items_declared_correct_or_unlabelled_as_unperturbed() -> None:
    kinds = {"unperturbed": 1, "declared wrong": 11, "declared right": 21, "": 31}
    rows = [
        build_rating_row(first + item, rater, reference != "declared wrong", reference=reference)
        for reference, first in kinds.items()
        for item in range(4)
        for rater in RATERS
    ]
    lines = [line for line in list_contrasts(rows) if line["family"] == "error types" and line["quantity"] == "rate"]
    values = {line["first"]: line["first_value"] for line in lines} | {
        line["second"]: line["second_value"] for line in lines
    }
    assert values == {"unperturbed": 1.0, "declared wrong": 0.0, "declared right": 1.0, "not known": 1.0}


def test_contrast_of_areas_without_confidences_states_the_reason() -> None:
    rows = [replace(one_row, confidence=None) for one_row in build_rows()]
    area = find_contrast(list_contrasts(rows), "simulators", "gpt-5, subtle error", "qwen-3, subtle error", "AUC")
    assert area["reason"] == "no rating with a known reference has a confidence" and area["ratings"] == 0


def test_contrast_of_crossover_conditions_compares_the_two_versions_of_each_case() -> None:
    rows = build_rows()
    conditions = {str(one.item): 1 if one.source == "gpt-5" else 2 for one in rows}
    lines = list_contrasts(rows, conditions=conditions)
    assert find_contrast(lines, "conditions", "condition 1", "condition 2", "correct")["difference"] == -0.25
    assert find_contrast(lines, "conditions", "condition 1", "condition 2", "AUC, U-statistic")["difference"] == 0


def test_contrast_of_crossover_conditions_uses_the_names_of_the_conditions() -> None:
    rows = build_rows()
    conditions = {str(one.item): 1 if one.source == "gpt-5" else 2 for one in rows}
    made = sections_contrasts.build_contrast_tables(
        rating_columns.build_analysis_data(rows), (), conditions, ("gpt-5", "qwen-3")
    )["contrasts"]
    assert find_contrast(list_records(made), "conditions", "gpt-5", "qwen-3", "correct")["difference"] == -0.25


def test_contrasts_note_raters_and_machines_that_are_too_many_to_compare(monkeypatch) -> None:
    verdicts = {str(one.item): int(one.verdict) for one in build_rows()}
    machines = [Machine(name, "machine", verdicts, 0) for name in ("one", "two", "three")]
    few = sections_contrasts.build_contrast_tables(rating_columns.build_analysis_data(build_rows()), machines, {})[
        "contrasts"
    ]
    assert not [note for note in few["notes"] if "compared" in note]
    monkeypatch.setattr(sections_contrasts, "MOST_RATERS", 3)
    monkeypatch.setattr(sections_contrasts, "MOST_MACHINES", 2)
    made = sections_contrasts.build_contrast_tables(rating_columns.build_analysis_data(build_rows()), machines, {})[
        "contrasts"
    ]
    assert [note for note in made["notes"] if "compared" in note] == [
        "Raters are not compared with each other: 4 raters exceed the limit of 3. The tables of raters show the numbers of each.",
        "The first 2 of 3 machines are compared pairwise; the others are compared with the raters only: three.",
    ]
    assert "raters" not in {line["family"] for line in list_records(made)}


def test_contrasts_of_items_without_reference_labels_compare_only_rates() -> None:
    rows = [
        build_rating_row(item, rater, item > 2, reference="", **(GPT if item < 5 else QWEN))
        for item in range(1, 9)
        for rater in RATERS
    ]
    lines = list_contrasts(rows)
    assert {line["quantity"] for line in lines} == {"rate"}
    assert {"sources", "raters"} <= {line["family"] for line in lines}


# What simulated raters are (ratings/raters/simulated_raters.py): calls of a share of errors, thresholds with standard deviation 0.35.
SPREAD = sqrt(1 + 0.35**2)
SKILL = {"qwen": Skill(0.85, 0.45, 0.85), "gpt": Skill(0.85, 0.65, 0.85)}


def simulated_study(seed: int) -> rating_columns.AnalysisData:
    """Return the ratings of six simulated raters on two models' steps of unknown truth. Subtle errors of one are found more often."""
    rows = []
    for model, skill in SKILL.items():
        for item in range(40):
            number = 1 + item + 100 * (model == "gpt")
            error = ("none", "subtle")[item % 2]
            fields = {"source": model, "truth": None, **(planted("subtle") if error == "subtle" else {})}
            for rater in range(1, 7):
                verdict, confidence = judge_transition(error, f"{model}{item}", f"R{rater}", skill, seed, f"R{rater}")
                rows.append(build_rating_row(number, f"R{rater}", verdict, confidence, **fields))
    return rating_columns.build_analysis_data(rows)


def test_contrasts_recover_simulated_differences_between_simulators_without_declared_truth() -> None:
    held = {"subtle": 0, "none": 0, "AUC": 0}
    worlds = 60
    for seed in range(worlds):
        lines = list_records(sections_contrasts.build_contrast_tables(simulated_study(seed), (), {})["contrasts"])
        found = find_contrast(lines, "sources", "gpt, subtle error", "qwen, subtle error", "rate")
        held["subtle"] += found["low"] <= 0.45 - 0.65 <= found["high"]
        found = find_contrast(lines, "sources", "gpt", "qwen", "rate")
        held["none"] += found["low"] <= 0 <= found["high"]
        found = find_contrast(lines, "simulators", "gpt, subtle error", "qwen, subtle error", "AUC")
        held["AUC"] += found["low"] <= true_area(0.65) - true_area(0.45) <= found["high"]
    # 95 % of 60 is 57 with a standard deviation of 1.7; bench/results/coverage.md has many more studies.
    assert all(0.88 <= count / worlds <= 1 for count in held.values()), held


def true_area(called: float) -> float:
    """Return the mean over raters of P(an unperturbed item's signed rating exceeds a planted one's) + half of P(equal)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    steps = np.array([0.3, 0.7, 1.2, 1.9])
    cuts = np.concatenate([-steps[::-1], [0.0], steps])
    chances = []
    for share in (0.15, called):
        below = ndtr(cuts - (ndtri(share) * SPREAD - 0.35 * nodes)[:, None])
        chances.append(np.diff(below, axis=1, prepend=0, append=1))
    genuine, error = chances
    lower = np.cumsum(genuine, axis=1) - genuine / 2
    return float(weights / weights.sum() @ (error * lower).sum(axis=1))


def test_contrasts_do_not_depend_on_the_order_of_the_ratings() -> None:
    rows = build_rows()
    mixed = rows[:]
    random.Random(5).shuffle(mixed)
    assert list_contrasts(rows) == list_contrasts(mixed)
