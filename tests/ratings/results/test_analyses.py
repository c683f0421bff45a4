"""The analysis of a study: its tables against arithmetic, its results against the command, and the stability of its bytes."""

import io
import json
import random
import uuid
from dataclasses import replace
from typing import Any

import pytest
from django.core.management import call_command

from ratings.exchange import exports
from ratings.models import Assignment, ItemSource, MachineRater, MachineRating, Study
from ratings.rating import submit
from ratings.results.analyses import (
    document,
    key_numbers,
    rating_columns,
    sections_machines,
    sections_raters,
    sections_rates,
    store,
    tables,
)
from ratings.results.analyses.filters import Filters
from ratings.results.analyses.tables import TABLE_SPECS, build_table, list_records
from ratings.results.paper_values import DeclaredModel
from ratings.results.rating_rows import iter_rating_rows
from ratings.stats import summary
from ratings.stats.ratings_table import RatingRecord, build_ratings_table
from ratings.studies import SealedError, lifecycle, progress
from simulation.models import Twin
from tests.support import run_factory, study_factory
from tests.support.rating_rows import NOW, build_rating_row

MARK = "m" * 64
SUBTLE = {
    "perturbation": "subtle",
    "reference": "planted",
    "truth": False,
    "error_kind": "volume",
    "target": ["A:Volume"],
}

# Two raters. Items 1 to 4 genuine: both say yes, R2 could not judge item 4. Items 5 to 8 subtle: R1 finds three of
# them and ticks the planted row twice, R2 finds one and ticks nothing.
HAND = [
    *(build_rating_row(item, "R1", True, 5) for item in (1, 2, 3, 4)),
    *(build_rating_row(item, "R2", True, 4) for item in (1, 2, 3)),
    build_rating_row(4, "R2", None),
    *(build_rating_row(item, "R1", False, 4, marked=["A:Volume"] if item < 7 else [], **SUBTLE) for item in (5, 6, 7)),
    build_rating_row(8, "R1", True, 2, **SUBTLE),
    build_rating_row(5, "R2", False, 3, **SUBTLE),
    *(build_rating_row(item, "R2", True, 3, **SUBTLE) for item in (6, 7, 8)),
    build_rating_row(5, "R1", True, 2, occasion=2, position=9, **SUBTLE),
    build_rating_row(6, "R1", False, 2, occasion=2, position=10, **SUBTLE),
]


@pytest.fixture
def small_data() -> rating_columns.AnalysisData:
    return rating_columns.build_analysis_data(HAND)


def test_analysis_data_contains_the_same_table_that_the_statistics_build_row_by_row(small_data) -> None:
    judged = [one for one in HAND if one.is_judged]
    built = build_ratings_table(
        RatingRecord(
            str(r.item),
            r.rater,
            int(r.verdict),
            r.confidence,
            int(r.reference == "unperturbed"),
            r.source_name,
            str(r.pair),
        )
        for r in judged
    )
    for name in ("items", "raters", "sources", "categories", "pairs"):
        assert getattr(small_data.table, name) == getattr(built, name)
    for name in ("item", "rater", "verdict", "confidence", "reference", "source"):
        assert getattr(small_data.table, name).tolist() == getattr(built, name).tolist()
    assert small_data.table.factors["error_kind"][1] == ("", "volume")
    # Two items were judged twice, both by R1; the second answer to item 5 differs.
    assert [(r.item[-1], r.rater, r.first, r.second) for r in small_data.repeats] == [
        ("5", "R1", 0, 1),
        ("6", "R1", 0, 0),
    ]


def test_analysis_data_does_not_depend_on_the_order_of_the_rows(small_data) -> None:
    mixed = list(HAND)
    random.Random(3).shuffle(mixed)
    other = rating_columns.build_analysis_data(mixed)
    assert other.items == small_data.items and other.repeats == small_data.repeats
    for name in ("item", "rater", "verdict", "confidence", "position", "occasion", "counts"):
        assert getattr(other.columns, name).tolist() == getattr(small_data.columns, name).tolist()


@pytest.mark.parametrize(
    "change",
    [{"verdict": False}, {"confidence": 4}, {"seconds": 31.0}, {"rater": "R2"}, {"marked": ["B:Name"]},
     {"layout": "plain"}, {"error_kind": "place"}, {"error_kind": "slip", "reference": "planted", "deviation": 0.2}, {"experiment": "zebrafish"}, {"occasion": 2}, {"imported": True},
     {"simulated": True}, {"surplus": True}, {"verdicts": {"checklist": True}}, {"reference": ""}, {"position": 99}],
)  # fmt: skip
def test_ratings_digest_changes_with_everything_that_is_analysed(change) -> None:
    before = {"item": 1, "rater": "R1", "verdict": True}
    assert (
        rating_columns.build_analysis_data([build_rating_row(**before)]).sha256
        != rating_columns.build_analysis_data([build_rating_row(**{**before, **change})]).sha256
    )
    assert (
        rating_columns.build_analysis_data([build_rating_row(**before)]).sha256
        == rating_columns.build_analysis_data([build_rating_row(**before, note="told later")]).sha256
    )


def test_rates_and_confidences_equal_values_computed_shown_to_admin(small_data) -> None:
    declared = {"gpt-5": DeclaredModel("gpt-5", "transition_model")}
    made = sections_rates.build_rate_tables(small_data, "transition_plausibility", declared)
    genuine, subtle = list_records(made["rates"])
    # Genuine: 4 + 3 of 7 judged say yes, one could not judge. Subtle: R1 1 of 4, R2 3 of 4.
    assert (genuine["source"], genuine["k"], genuine["n"], genuine["items"], genuine["raters"]) == ("gpt-5", 7, 7, 4, 2)
    assert (genuine["rate"], genuine["cannot_judge"], genuine["published"]) == (1.0, 1, 0.93)
    assert (subtle["source"], subtle["error"], subtle["k"], subtle["n"]) == ("gpt-5, subtle error", "subtle", 4, 8)
    assert (subtle["rate"], subtle["item_weighted"], subtle["rater_weighted"]) == (0.5, 0.5, 0.5)
    assert subtle["published"] is None
    # Wilson for 4 of 8: 1/2 -+ 1.96 sqrt(0.25/8 + 3.8415/256) / (1 + 3.8415/8) = 1/2 -+ 0.42158 / 1.48018
    assert (subtle["wilson_low"], subtle["wilson_high"]) == pytest.approx((0.2152, 0.7848), abs=1e-4)
    cells = {
        (c["source"], c["verdict"], c["confidence"]): (c["n"], c["share"]) for c in list_records(made["confidence"])
    }
    assert cells["gpt-5, subtle error", 0, 4] == (3, 3 / 8)
    assert cells["gpt-5, subtle error", 1, 5] == (0, 0.0)
    assert len(cells) == 2 * 2 * 5
    no = next(s for s in list_records(made["spread"]) if s["source"] == "gpt-5, subtle error" and s["verdict"] == 0)
    assert (no["n"], no["median"], no["mean"]) == (4, 4.0, 3.75)  # 4, 4, 4 and 3


def test_rates_by_group_are_listed_per_source_and_never_pooled(small_data) -> None:
    declared = {"gpt-5": DeclaredModel("gpt-5", "transition_model")}
    made = sections_rates.build_rate_tables(small_data, "transition_plausibility", declared)
    by_rater = {(r["group"], r["source"]): (r["k"], r["n"]) for r in list_records(made["rates_by_rater"])}
    assert by_rater == {
        ("R1", "gpt-5"): (4, 4), ("R2", "gpt-5"): (3, 3),
        ("R1", "gpt-5, subtle error"): (1, 4), ("R2", "gpt-5, subtle error"): (3, 4),
    }  # fmt: skip
    kinds = [(r["group"], r["source"], r["n"]) for r in list_records(made["rates_by_error_kind"])]
    assert kinds == [("volume", "gpt-5, subtle error", 8)]  # genuine items have no kind of error
    assert made["rates_by_arm"]["rows"] == []  # everybody was shown the same
    arms = rating_columns.build_analysis_data([*HAND, build_rating_row(1, "R3", False, layout="plain")])
    shown = list_records(sections_rates.build_rate_tables(arms, "transition_plausibility", {})["rates_by_arm"])
    assert [(r["group"], r["n"]) for r in shown if r["source"] == "gpt-5"] == [
        ("layout: aligned", 7),
        ("layout: plain", 1),
    ]


def test_raters_drift_and_contested_tables_equal_values_computed_shown_to_admin(small_data) -> None:
    raters = [sections_raters.RaterSummary(f"R{n}", "person", n, 2, 3) for n in (1, 2, 3)]
    made = sections_raters.build_rater_tables(small_data, raters, False, 3)
    one, two, three = list_records(made["raters"])
    # R1: 8 judged, 7 right (wrong on item 8 alone); in their own order 4 of 4, then 3 of 4. Says yes to 5 of 8.
    assert (one["ratings"], one["yes_share"], one["correct_share"]) == (8, 5 / 8, 7 / 8)
    assert (one["first_half_correct"], one["second_half_correct"]) == (1.0, 0.75)
    assert (one["retest_same"], one["retest_of"], one["items_left"]) == (1, 2, 1)
    # R2: 8 ratings, 7 judged; right on 1, 2, 3, 5; first half by position 1, 2, 3, 5; second half 6, 7, 8 all wrong.
    assert (two["ratings"], two["correct_share"], two["first_half_correct"]) == (8, 4 / 7, 1.0)
    assert (two["second_half_correct"], two["flags"]) == (0.0, "")  # too few answers to say anything
    # Both judged items 1, 2, 3, 5, 6, 7, 8. Same: 1, 2, 3, 5, 8. po = 5/7; R1 yes 4/7, R2 yes 6/7:
    # pe = (4*6 + 3*1)/49 = 27/49; kappa = (35/49 - 27/49) / (22/49) = 8/22
    assert one["kappa_with_others"] == two["kappa_with_others"] == pytest.approx(8 / 22)
    assert (one["shared_items"], three["shared_items"]) == (7, 0)
    marked = list_records(sections_raters.build_rater_tables(small_data, raters, False, 20)["raters"])
    assert (marked[0]["kappa_with_others"], marked[0]["flags"]) == (pytest.approx(8 / 22), "kappa from few items")
    assert (marked[2]["kappa_with_others"], marked[2]["flags"]) == (None, "")
    assert (three["ratings"], three["yes_share"], three["median_seconds"]) == (0, None, None)
    drift = list_records(made["drift"])
    assert [(d["from_position"], d["to_position"], d["n"]) for d in drift] == [
        (n, n, 1 if n == 4 else 2) for n in range(1, 9)
    ]
    assert [d["correct_share"] for d in drift] == [1, 1, 1, 1, 1, 0.5, 0.5, 0]
    worst = list_records(made["contested"])[0]
    # Item 8: both say plausible of a wrong one. Items 6 and 7 are split: disagreement 1, but not most say otherwise.
    assert (worst["item"][-1], worst["yes"], worst["judged"], worst["spread"], worst["disputed"]) == (
        "8",
        2,
        2,
        0,
        True,
    )
    assert [line["item"][-1] for line in list_records(made["contested"])[1:3]] == ["6", "7"]
    matrix = list_records(made["matrix"])
    assert len(matrix) == 15 and sum(line["correct"] for line in matrix) == 7 + 4


def test_rating_matrix_shows_a_limited_number_of_judged_items_and_raters_and_notes_it(monkeypatch) -> None:
    monkeypatch.setattr(sections_raters, "MATRIX_ITEMS", 2)
    monkeypatch.setattr(sections_raters, "MATRIX_RATERS", 2)
    unjudged = [build_rating_row(item, "R1", None) for item in (1, 2, 3)] + [build_rating_row(1, "R2", None)]
    fits = rating_columns.build_analysis_data(
        [*unjudged, *(build_rating_row(item, rater, True) for item in (2, 3) for rater in ("R2", "R3"))]
    )
    made = sections_raters.build_rater_tables(fits, [], False, 3)["matrix"]
    assert [(line["rater"], line["item"][-1]) for line in list_records(made)] == [
        ("R2", "2"), ("R3", "2"), ("R2", "3"), ("R3", "3"),
    ]  # fmt: skip
    assert made["notes"] == []
    more = rating_columns.build_analysis_data(
        [build_rating_row(item, f"R{rater}", True) for item in (1, 2, 3, 4) for rater in (1, 2, 3)]
    )
    made = sections_raters.build_rater_tables(more, [], False, 3)["matrix"]
    # Items 1 and 3 of four, the first two of three raters.
    assert {(line["rater"], line["item"][-1]) for line in list_records(made)} == {
        (rater, item) for rater in ("R1", "R2") for item in "13"
    }
    assert made["notes"] == ["2 of 4 items and 2 of 3 raters are shown; the ratings file has all of them."]


@pytest.mark.parametrize(
    ("model", "role", "error", "value"),
    [
        ("gpt-5", "transition_model", "none", 0.93), ("gpt-5", "twin_maker", "obvious", 0.03),
        ("gpt-5", "twin_maker", "subtle", None), ("claude-sonnet-4", "transition_model", "none", 0.90),
    ],
)  # fmt: skip
def test_published_rate_is_found_by_declared_model_role_and_error(model, role, error, value) -> None:
    found = sections_rates.find_published_rate("transition_plausibility", DeclaredModel(model, role), error)
    assert found is not None and found.value == value
    assert sections_rates.find_published_rate("evidence_sufficiency", DeclaredModel(model, role), error) is None


@pytest.mark.parametrize(
    "declared",
    [
        None, DeclaredModel("gpt-5.5", "transition_model"), DeclaredModel("my-gpt-5-finetune", "transition_model"),
        DeclaredModel("claude-sonnet-5.5", "transition_model"), DeclaredModel("GPT-5", "transition_model"),
    ],
)  # fmt: skip
def test_published_rate_is_never_shown_for_another_model(declared) -> None:
    assert sections_rates.find_published_rate("transition_plausibility", declared, "none") is None


def test_published_rate_of_several_pooled_models_has_no_value_and_lists_both() -> None:
    kind = "transition_plausibility"
    gpt, claude = (DeclaredModel(name, "transition_model") for name in ("gpt-5", "claude-sonnet-4"))
    one = key_numbers._find_published_rates(kind, [gpt])
    assert one is not None and one["value"] == 0.93 and "n and interval not reported" in one["said"]
    for models in ([gpt, claude], [gpt, None], []):
        several = key_numbers._find_published_rates(kind, models)
        said = "Published: 90% for claude-sonnet-4 and 93% for gpt-5 (n and interval not reported)."
        assert several == {"value": None, "said": said}


def test_rater_flags_appear_only_after_enough_answers() -> None:
    same = [build_rating_row(item, "R1", True, 5, seconds=5.0) for item in range(1, 11)]
    fell = [build_rating_row(item, "R2", item <= 5, item % 5 + 1) for item in range(1, 11)]
    made = sections_raters.build_rater_tables(
        rating_columns.build_analysis_data([*same, *fell]),
        [sections_raters.RaterSummary(f"R{n}", "person", 0, 0, 0) for n in (1, 2)],
        False,
        3,
    )
    flags = [line["flags"] for line in list_records(made["raters"])]
    # The median of 5 and 30 seconds is 17.5; R1 takes less than half of it.
    assert flags[0] == "same verdict throughout; same confidence throughout; less than half the usual time"
    assert flags[1] == "100 points fewer correct in the second half"


def test_localisation_is_the_share_of_reported_errors_whose_mark_hits_the_planted_row(small_data) -> None:
    # R1 calls items 5, 6 and 7 and ticks the planted row of 5 and 6; R2 calls item 5 and ticks nothing: 2 of 4.
    results = {
        (row.args.get("rater"), row.args.get("source")): row for row in sections_raters.compute_localisation(small_data)
    }
    pooled = results[None, None]
    assert (pooled.value, pooled.n["k"], pooled.n["ratings"], pooled.reference) == (0.5, 2, 4, "planted")
    assert results["R1", None].value == 2 / 3 and results["R2", None].value == 0
    made = sections_raters.build_detection_tables(
        small_data, [*summary.compute_summary(small_data.table), *results.values()]
    )
    rows = {(row["who"], row["source"]): row for row in list_records(made["localisation"])}
    assert rows["all raters", "gpt-5, subtle error"]["rate"] == 0.5
    line = next(row for row in list_records(made["detection"]) if row["who"] == "all raters")
    assert (line["localised"], line["localised_of"]) == (2, 4)
    (note,) = (text for text in made["detection"]["notes"] if "U-statistic" in text)
    area = next(row for row in summary.compute_summary(small_data.table) if row.stat == "mrmc_u_auc" and not row.args)
    assert note.startswith("AUC as a U-statistic, which weights raters by the pairs of items they rated: all errors ")
    assert f"all errors {area.value:.2f}; " in note and area.low is None  # two raters have no interval


def test_localisation_counts_errors_of_unknown_location_but_excludes_them_from_the_share() -> None:
    read = rating_columns.build_analysis_data(
        [build_rating_row(1, "R1", False, **{**SUBTLE, "target": []}), build_rating_row(2, "R1", True)]
    )
    (first, *_) = sections_raters.compute_localisation(read)
    assert (first.value, first.n["untold"], first.reason) == (None, 1, "no called error has marks that can be compared")
    assert (
        sections_raters.compute_localisation(rating_columns.build_analysis_data([build_rating_row(1, "R1", True)]))
        == []
    )


def test_misses_compare_people_and_machines_on_the_same_items(small_data) -> None:
    verdicts = {str(uuid.UUID(int=item)): int(item <= 6) for item in range(2, 9)}  # calls 7 and 8, judges not item 1
    machine = sections_machines.Machine("M1, gpt", "machine", verdicts, 1)
    made = sections_machines.build_machine_tables(small_data, [machine], 3, 0, 0)
    found = {
        (m["who"], m["error"], m["error_kind"]): (m["caught"], m["n"], m["recall"])
        for m in list_records(made["misses"])
    }
    assert found["all raters", "none", ""] == (0, 7, 0)
    assert found["all raters", "subtle", ""] == found["all raters", "subtle", "volume"] == (4, 8, 0.5)
    assert found["R1", "subtle", ""] == (3, 4, 0.75)
    assert found["M1, gpt", "none", ""] == (0, 3, 0)
    assert found["M1, gpt", "subtle", "volume"] == (2, 4, 0.5)
    assert made["misses"]["notes"] == [
        "M1, gpt gave no verdict on 1 of 8 items; they are in no share.",
        "Reference: planted against unperturbed; a simulator's own mistakes count as false alarms.",
    ]
    people, machine_says = list_records(made["fractions"])
    assert (people["k"], people["n"], machine_says["share"], machine_says["n"]) == (11, 15, 5 / 7, 7)
    cell = next(c for c in list_records(made["conditional_matrix"]) if (c["row"], c["col"]) == ("M1, gpt", "R1"))
    # Of the items that the machine calls plausible (2 to 6), R1 says so too of 2, 3 and 4.
    assert (cell["value"], cell["n"], cell["base"]) == (3 / 5, 7, 5)


def beside_classifiers(*says: str, judged: bool = True) -> tuple[dict[str, Any], dict[str, Any]]:
    """What comes first of classifiers who say so (a character a record) beside three raters who call every second record
    sufficient, each another one wrongly: how far they agree, and how often the classifiers say sufficient."""
    codes = range(1, len(says[0]) + 1) if says else range(1, 21)
    alike = {(code, rater): code % 2 == (0 if code == rater else 1) for code in codes for rater in (1, 2, 3)}
    read = rating_columns.build_analysis_data(
        build_rating_row(code, f"R{rater}", yes if judged else None) for (code, rater), yes in alike.items()
    )
    every = [
        sections_machines.Machine(f"c{at}", "classifier", {str(uuid.UUID(int=c)): int(own[c - 1]) for c in codes}, 0)
        for at, own in enumerate(says)
    ]
    tables = sections_machines.build_machine_tables(read, every, 20, 0, 50)
    study = Study(kind="evidence_sufficiency")
    agreed, share = key_numbers.build_key_numbers(study, read, progress.StopStatus(True, 60, 60, ""), tables, [], {})[
        3:
    ]
    return agreed, share


SEVEN = "1" * 7 + "0" * 13


def test_key_number_of_a_single_classifier_has_its_interval() -> None:
    # Wilson, 7 of 20, z^2 = 3.841459: centre (.35 + .0960365) / 1.192073 = .374169; half width
    # 1.959964 * sqrt(.35 * .65 / 20 + 3.841459 / 1600) / 1.192073 = .192977
    _, share = beside_classifiers(SEVEN)
    assert (share["value"], share["said"], share["reason"]) == (0.35, "7 of 20 verdicts of the classifier", "")
    assert (share["low"], share["high"]) == pytest.approx((0.181192, 0.567146), abs=2e-6)


def test_key_number_of_two_classifiers_is_pooled_without_an_interval() -> None:
    _, share = beside_classifiers(SEVEN, "1" * 20)
    assert (share["value"], share["said"]) == (27 / 40, "27 of 40 verdicts of classifiers")
    assert (share["low"], share["high"]) == (None, None)
    assert share["reason"] == "2 classifiers pooled; the table has an interval for each"


def test_agreement_with_the_classifier_gives_no_reason_for_a_missing_interval_that_is_not_shown() -> None:
    # Twenty records: enough for an interval of kappa, not for one of its difference from the raters' own
    agreed, _ = beside_classifiers(SEVEN)
    assert agreed["low"] is not None and agreed["high"] is not None
    assert agreed["reason"] == ""


def test_key_numbers_on_classifiers_state_whether_classifier_verdicts_or_ratings_are_missing() -> None:
    assert {one["reason"] for one in beside_classifiers()} == {"no classifier judged these records"}
    assert {one["reason"] for one in beside_classifiers(SEVEN, judged=False)} == {"there are no ratings"}


@pytest.mark.parametrize(
    ("simulated", "imported", "together", "each"),
    [
        ((), (), "people", ["person", "person"]),
        (("R1",), (), "people and simulated", ["simulated", "person"]),
        (("R1", "R2"), (), "simulated", ["simulated", "simulated"]),
        ((), ("R2",), "people", ["person", "imported"]),
        (("R1",), ("R2",), "people and simulated", ["simulated", "imported"]),
    ],
)
def test_tables_of_raters_and_machines_never_label_simulated_raters_as_people(
    simulated, imported, together, each
) -> None:
    rows = [replace(one, simulated=one.rater in simulated, imported=one.rater in imported) for one in HAND]
    verdicts = {str(uuid.UUID(int=item)): 1 for item in range(1, 9)}
    machine = sections_machines.Machine("M1, gpt", "machine", verdicts, 0)
    tables = sections_machines.build_machine_tables(rating_columns.build_analysis_data(rows), [machine], 3, 0, 0)
    misses = {line["who"]: line["kind"] for line in list_records(tables["misses"])}
    assert misses == {"all raters": together, "R1": each[0], "R2": each[1], "M1, gpt": "machine"}
    assert [line["kind"] for line in list_records(tables["fractions"])] == [together, "machine"]
    assert [line["kind"] for line in list_records(tables["human_model"])] == [together, together, "machine"]


def test_kappa_states_no_reason_if_only_the_interval_of_its_difference_is_missing() -> None:
    # 40 items: enough for the kappa's interval, fewer than the 50 of a difference.
    many = rating_columns.build_analysis_data(
        build_rating_row(at, rater, (at + (at % shift == 0)) % 2 == 1)
        for at in range(40)
        for rater, shift in (("R1", 5), ("R2", 7))
    )
    verdicts = {fact.code: at % 2 for at, fact in enumerate(many.items)}
    machine = sections_machines.Machine("checklist", "classifier", verdicts, 0)
    made = list_records(sections_machines.build_machine_tables(many, [machine], 20, 0, 200)["human_model"])
    line = next(line for line in made if line["who"] == "checklist")
    assert line["kappa_low"] is not None and line["difference"] is not None and line["difference_low"] is None
    assert line["reason"] == ""


def test_drift_shows_only_the_pace_when_no_truth_is_known(small_data) -> None:
    assert (
        sections_raters.build_rater_tables(small_data, [], False, 3)["drift"]["title"] == "Correct answers by position"
    )
    untold = rating_columns.build_analysis_data(build_rating_row(item, "R1", True, reference="") for item in (1, 2, 3))
    assert sections_raters.build_rater_tables(untold, [], False, 3)["drift"]["title"] == "Pace by position"


def test_misses_table_does_not_count_an_item_declared_wrong_as_a_false_alarm() -> None:
    read = rating_columns.build_analysis_data(
        [build_rating_row(1, "R1", False), build_rating_row(2, "R1", False, reference="declared wrong")]
    )
    made = sections_machines.build_machine_tables(read, [], 3, 0, 0)
    found = {(m["who"], m["error"]): (m["caught"], m["n"]) for m in list_records(made["misses"])}
    assert found["all raters", "none"] == (1, 1)
    assert found["all raters", "other"] == (1, 1)


def test_table_rejects_a_row_that_does_not_fit_its_columns() -> None:
    with pytest.raises(ValueError, match="a row of ROC points does not have the columns source, threshold"):
        build_table("roc", [["gpt-5", 1]])


@pytest.fixture
def study(db, admin_user) -> Study:
    """Ten items of six raters, one rating that could not be judged, some shown again, unblinded."""
    run_factory.create_pool()
    study = study_factory.create_open_study(
        raters=3, design="crossed", repeats=0.4, repeat_distance=2, ratings_per_item=3
    )
    first = study.raters.get(label="R01").assignments.order_by("position").first()
    submit.submit_rating(first, None, None, uuid.uuid4(), cannot_judge=True)
    for rater in study.raters.all():
        study_factory.rate_everything(rater)
    lifecycle.close_and_unblind(study, admin_user)
    study.refresh_from_db()
    return study


def build_document(study: Study, filters: Filters = Filters(), resamples: int = 40) -> dict[str, Any]:  # noqa: B008  # frozen
    return document.build_document(study, filters, MARK, resamples=resamples)


@pytest.mark.both_databases
def test_document_has_the_same_bytes_for_the_same_ratings_and_after_a_json_round_trip(study) -> None:
    first, again = build_document(study), build_document(study)
    assert store.encode_document(first) == store.encode_document(again)
    assert store.encode_document(json.loads(store.encode_document(first))) == store.encode_document(first)
    assert tuple(first["tables"]) == tuple(TABLE_SPECS)
    assert (first["full"], build_document(study, resamples=0)["full"]) == (True, False)


def test_agreement_command_prints_the_results_of_the_document_for_the_exported_file(study, tmp_path) -> None:
    file = tmp_path / "ratings.csv"
    file.write_text("".join(exports.export_csv_lines(study, blinded=False)), encoding="utf-8", newline="")
    out = io.StringIO()
    call_command("agreement", str(file), "--json", "--resamples", "40", stdout=out, stderr=io.StringIO())
    # The command's table has no marks, so that it cannot tell which called errors were located.
    results = [one for one in build_document(study)["results"] if one["stat"] != "localisation"]
    assert json.loads(out.getvalue()) == json.loads(json.dumps(results))
    stats = {result["stat"]: result["n"] for result in results}
    assert stats["retest_agreement"]["items"] > 0
    read = rating_columns.load_analysis_data(study, Filters())
    rows = summary.compute_summary(read.table, read.repeats, seed=0, resamples=40)
    assert results == [one.to_dict() for one in rows]


def test_filtered_document_uses_only_those_ratings_and_has_a_note(study) -> None:
    found = build_document(study, Filters(rater="R02"))
    own = [r for r in iter_rating_rows(study) if r.rater == "R02" and r.is_judged]
    assert found["data"]["ratings"] == len(own) == sum(r["n"] for r in list_records(found["tables"]["rates"]))
    assert [line["rater"] for line in list_records(found["tables"]["raters"])] == ["R02"]
    assert found["filters"] == {"values": {"rater": "R02"}, "said": "Only rater: R02."}
    assert found["notes"][0] == "Only rater: R02. All results below use these ratings only."
    # The study has offline twins.
    assert found["notes"][-1] == document.RULE_BASED_ERRORS


def test_study_without_twins_of_rules_has_no_note_on_them(study) -> None:
    study_items = ItemSource.objects.filter(item__study=study)
    assert document.describe_rule_based_errors(study) == [document.RULE_BASED_ERRORS]
    Twin.objects.filter(pk__in=study_items.values("twin")).update(cast="gpt-5")
    assert document.describe_rule_based_errors(study) == []


def test_document_contains_key_numbers_composition_and_interim_status(study) -> None:
    found = build_document(study)
    collected, plausible, obvious_caught, caught, agreement, auc = found["headline"]
    rows = [r for r in iter_rating_rows(study) if r.counts]
    genuine = [r.verdict for r in rows if r.is_judged and r.reference == "unperturbed"]
    subtle, obvious = (
        [r.verdict for r in rows if r.is_judged and r.perturbation == size] for size in ("subtle", "obvious")
    )
    assert (collected["value"], plausible["value"]) == (len(rows), sum(genuine) / len(genuine))
    assert caught["value"] == pytest.approx(1 - sum(subtle) / len(subtle))
    assert obvious_caught["value"] == pytest.approx(1 - sum(obvious) / len(obvious))
    assert (agreement["published"]["value"], auc["published"]["value"]) == (0.811, 0.609)
    # Pairs share ten items at most, fewer than 20: the mean over them without interval, and why.
    assert agreement["value"] is not None and agreement["low"] is None
    assert agreement["reason"].startswith("few items: no pair shares 20 items")
    about = found["composition"]
    assert about["planted_share"] == 6 / 10  # four genuine, three of each error
    assert about["arms"] == {"layout": {"aligned": 1.0}, "context": {"no": 1.0}, "marks": {"off": 1.0}}
    assert (about["cannot_judge"], about["simulated"]["said"], about["machines"]) == (1, "", [])
    assert found["interim"] == {"met": True, "said": "All the ratings the study set out to collect are there."}


@pytest.mark.parametrize("error", ["none", "subtle"])
def test_composition_has_the_prevalence_and_arms_of_the_full_study_under_any_filter(study, error) -> None:
    rater = Assignment.objects.filter(item__study=study, rater__label="R01")
    rater.update(layout="plain")
    whole, some = build_document(study)["composition"], build_document(study, Filters(error=error))["composition"]
    # Of ten items four are genuine; of three raters one was shown the plain layout, each rated all ten.
    assert whole["planted_share"] == some["planted_share"] == 6 / 10
    assert whole["errors"] == some["errors"] == {"none": 4, "obvious": 3, "subtle": 3}
    assert whole["arms"]["layout"] == some["arms"]["layout"] == pytest.approx({"aligned": 2 / 3, "plain": 1 / 3})
    assert build_document(study, Filters(layout="plain"))["composition"]["arms"]["layout"] == whole["arms"]["layout"]


def test_composition_leaves_out_raters_whose_ratings_do_not_count(study) -> None:
    study.raters.filter(label__in=("R02", "R03")).update(dropped=True, withdrawn_at=NOW)
    own = Assignment.objects.filter(item__study=study, rater__label="R01", occasion=1)
    own.filter(item__source__perturbation="obvious").update(surplus=True, slot=None)
    # R01 alone, without the three obvious ones: four genuine and three subtle.
    assert build_document(study)["composition"]["errors"] == {"none": 4, "subtle": 3}


def test_model_raters_are_in_table_1_and_in_no_number_of_people(study) -> None:
    before = build_document(study)
    machine = MachineRater.objects.create(study=study, label="M1", cast="gpt", name="gpt-5")
    for assignment in Assignment.objects.filter(item__study=study, rater__label="R01", occasion=1).select_related(
        "item"
    ):
        MachineRating.objects.create(rater=machine, item=assignment.item, verdict=True, payload_sha256="0" * 64)
    after = build_document(study)
    assert after["results"] == before["results"] and after["data"] == before["data"]
    assert before["tables"]["human_model"]["rows"] == []
    who = {line["who"]: line["kind"] for line in list_records(after["tables"]["human_model"])}
    assert who["M1, gpt-5"] == "machine"
    assert after["composition"]["machines"] == ["M1, gpt-5"]
    misses = {(m["who"], m["error"]): (m["caught"], m["n"]) for m in list_records(after["tables"]["misses"])}
    assert misses["M1, gpt-5", "subtle"] == (0, 3)


def test_sealed_study_is_not_analysed(db) -> None:
    run_factory.create_pool()
    with pytest.raises(SealedError):
        build_document(study_factory.create_open_study())


def test_table_that_no_function_builds_or_no_declaration_names_is_an_error_that_names_it(monkeypatch) -> None:
    monkeypatch.setitem(tables.TABLE_SPECS, "extra", tables.TableSpec("Extra", ("source",)))
    with pytest.raises(TypeError, match=r"no function in sections_\*\.py builds the tables extra of TABLE_SPECS"):
        tables.check_builders()
    with pytest.raises(TypeError, match="builds the table other, which TABLE_SPECS does not declare"):
        tables.builds("other")(lambda: {})
    with pytest.raises(TypeError, match="and build_rate_tables both build the table rates"):
        tables.builds("rates")(lambda: {})
    monkeypatch.setitem(tables.TABLE_SPECS, "extra", tables.TableSpec("Extra", ("source", "colour")))
    with pytest.raises(TypeError, match="the table extra has columns without a meaning in COLUMNS: colour"):
        tables._check_columns()
