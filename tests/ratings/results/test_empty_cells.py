"""Warnings before opening: results that a design will not have, compared with the results of the same study once rated."""

import ast
import io
import json
from collections.abc import Iterable
from functools import cache
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import transaction

from ratings.exchange.imports import item_imports
from ratings.models import Study
from ratings.raters import simulated_raters
from ratings.results import empty_cells
from ratings.results.analyses import document, sections_contrasts
from ratings.results.analyses.filters import Filters
from ratings.results.analyses.tables import list_records
from ratings.results.empty_cells import Forecast, PlanFacts, ResultKind, forecast_empty_results, suggest_change
from ratings.stats import Estimate
from ratings.studies import freeze, lifecycle
from tests.support import run_factory, study_factory

pytestmark = [pytest.mark.django_db]


def build_sources(**counts: int) -> list[dict[str, Any]]:
    return [{"cast": "offline", "perturbation": name, "count": count} for name, count in counts.items()]


DESIGNS: dict[str, dict[str, Any]] = {
    "two raters, no repeats": {"sources": build_sources(none=12, obvious=6, subtle=6), "ratings_per_item": 2, "raters": 2},
    "four raters of six": {"sources": build_sources(none=12, obvious=6, subtle=6), "ratings_per_item": 4, "raters": 6},
    "no unperturbed items": {"sources": build_sources(obvious=10, subtle=10), "ratings_per_item": 3, "raters": 3},
    "no planted errors": {"sources": build_sources(none=24), "ratings_per_item": 3, "raters": 3},
    "one rating an item": {"sources": build_sources(none=12, obvious=12), "ratings_per_item": 1, "raters": 4},
    "crossed, with repeats": {
        "sources": build_sources(none=12, obvious=12), "design": "crossed", "ratings_per_item": 4, "repeats": 0.25,
        "repeat_distance": 5,
    },
    "a crossover": {
        "sources": build_sources(none=12, obvious=12), "design": "crossover", "conditions": "twins", "ratings_per_item": 4,
    },
}  # fmt: skip


def create_draft(**changes: Any) -> Study:
    return lifecycle.create_study(lifecycle.parse_protocol(study_factory.build_protocol(**{"practice": 0, **changes})))


SAMPLE = {
    "barcode": "MAT-AAAAAAAA", "name": "Cells", "properties": {"volume": "10 mL"},
    "available_for_use": "available_for_further_use", "environmental_condition": "room_temp",
}  # fmt: skip


def create_import_draft(origins: Iterable[dict[str, Any]], **changes: Any) -> Study:
    """Return a draft of imported transitions only, each with the origin that its line states."""
    lines = []
    for number, origin in enumerate(origins, 1):
        after = {**{name: SAMPLE[name] for name in SAMPLE if name != "barcode"}, "replaces": SAMPLE["barcode"]}
        outcome = {"new_materials": [{**after, "properties": {"volume": f"{number} mL"}}], "new_observations": []}
        line = {
            "id": f"item-{number}", "source": "elsewhere", "pair": f"p{number}", "input_materials": [SAMPLE],
            "action": {"name": "Transfer", "parameters": {"volume": "1 mL"}},
            "outcome": {**outcome, "success": True, "failure_reason": ""}, **origin,
        }  # fmt: skip
        lines.append(json.dumps(line).encode())
    study = create_draft(**{"sources": [], "ratings_per_item": 4, "raters": 4, "design": "crossed", **changes})
    item_imports.import_file(study, io.BytesIO(b"\n".join(lines)))
    return study


def compute_rehearsal(study: Study) -> dict[str, float | None]:
    """Return the pooled numbers of one rehearsal."""
    protocol = lifecycle.parse_protocol(study.protocol)
    plan = freeze.preview_opening(protocol, study)
    results = empty_cells._rehearse_results(protocol, plan, plan.assignments, 1)
    return {row.stat: row.value for row in results if not row.args}


@cache
def forecast_of(name: str) -> Forecast:
    """Return the forecast of a design, computed once: it depends only on the design and the pool. The database is left unchanged."""
    with transaction.atomic():
        run_factory.create_pool(60)
        found = forecast_empty_results(create_draft(**DESIGNS[name]))
        transaction.set_rollback(True)
    return found


def test_phrases_that_mark_a_reason_as_due_to_the_answers_occur_in_reasons() -> None:
    folders = (settings.BASE_DIR / "ratings/stats", settings.BASE_DIR / "ratings/results/analyses")
    trees = [ast.parse(path.read_text(encoding="utf-8")) for folder in folders for path in folder.rglob("*.py")]
    docstrings = {
        id(node.body[0].value)
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and isinstance(node.body[0], ast.Expr)
    }
    texts = [
        node.value
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
    ]
    assert not [phrase for phrase in empty_cells._BY_ANSWERS if not any(phrase in text for text in texts)]


def find_missing_cells(study: Study, seed: int) -> dict[tuple[ResultKind, str], tuple[int, tuple[str, ...]]]:
    """Rate and unblind the study. Return for each kind of result how many there are, and why some lack their number or interval."""
    simulated_raters.simulate_raters(study, study.raters.count(), 0.9, 0.6, seed=seed)
    study_factory.unblind_study(study, User.objects.create_superuser(f"chief {seed}"))
    made = document.build_document(Study.objects.get(pk=study.pk), Filters(), "mark", seed=seed, resamples=400)
    rows = [Estimate.from_dict(row) for row in made["results"]]
    contrasts = [
        row for row in list_records(made["tables"]["contrasts"]) if row["family"] in sections_contrasts.BY_DESIGN
    ]
    found = empty_cells.collect_cells([*rows, *map(empty_cells.build_contrast_result, contrasts)])
    return {
        (key, missing): (one.n, reasons)
        for key, one in found.items()
        for missing, reasons in (("number", one.without_number), ("interval", one.without_interval))
        if reasons
    }


@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.parametrize("seed", [11, pytest.param(12, marks=pytest.mark.thorough)])
def test_forecast_warns_of_exactly_those_results_that_will_be_missing(name, seed) -> None:
    """Both directions: every result that will be missing has a warning, and every result with a warning is missing."""
    warned = {(one.key, one.missing): one for one in forecast_of(name).warnings}
    run_factory.create_pool(60)
    study = create_draft(**DESIGNS[name])
    Study.objects.filter(pk=study.pk).update(salt="salt")
    lifecycle.open_study(study)
    study.refresh_from_db()
    found = find_missing_cells(study, seed)
    by_design = {cell for cell, (n, reasons) in found.items() if empty_cells.is_by_design(n, reasons)}
    sure = {cell for cell, one in warned.items() if one.sure}
    assert not by_design - sure, "left empty by the design, and not told"
    nameless = {key for key, missing in found if missing == "number"}
    assert not {cell for cell in sure - by_design if cell not in found and cell[0] not in nameless}, "told, and there"
    # Each of some 150 kinds of results may lack something by a chance too small to occur in 20 rehearsals.
    assert len(found.keys() - warned.keys()) <= 2, "missing, and not warned of"
    always = {cell for cell, one in warned.items() if one.times == empty_cells.REHEARSALS}
    assert len(always & found.keys()) >= 0.9 * len(always), "missing in every rehearsal, and there"
    assert all(one.change and one.reason for one in warned.values())


def find_sure_changes(name: str) -> dict[tuple[str, str], str]:
    """Return the suggested change for what is surely missing, by statistic and kind."""
    return {(one.key.stat, one.missing): one.change for one in forecast_of(name).warnings if one.sure}


def test_forecast_without_unperturbed_items_suggests_them() -> None:
    found = find_sure_changes("no unperturbed items")
    for stat in ("dprime", "mrmc_mean_auc", "auc_signed"):
        assert found[stat, "number"] == "include unperturbed items"


def test_forecast_without_planted_errors_suggests_them() -> None:
    assert find_sure_changes("no planted errors")["dprime", "number"] == "include items with planted errors"


def test_forecast_with_two_raters_suggests_a_third_rater() -> None:
    found = [one for one in forecast_of("two raters, no repeats").warnings if one.sure]
    new = [one for one in found if ("target", "new raters") in one.key.scope and one.key.stat == "fleiss_kappa"]
    assert new and "at least 3 raters" in {one.change for one in new if not dict(one.key.scope).get("source")}.pop()


def test_forecast_with_one_rating_per_item_suggests_a_second_rating_per_item() -> None:
    assert (
        find_sure_changes("one rating an item")["avg_pairwise_kappa", "number"] == "ask for at least 2 ratings per item"
    )


def test_forecast_without_repeats_suggests_them_for_test_retest_agreement() -> None:
    assert "Repeat items" in find_sure_changes("two raters, no repeats")["retest_agreement", "number"]
    assert ("retest_agreement", "number") not in find_sure_changes("crossed, with repeats")


def test_forecast_stores_nothing_and_is_reproducible() -> None:
    run_factory.create_pool(60)
    study = create_draft(**DESIGNS["two raters, no repeats"])
    assert forecast_empty_results(study) == forecast_of("two raters, no repeats")
    assert study.items.count() == 0 and study.raters.count() == 0


def test_forecast_reports_a_plan_too_large_to_rehearse(monkeypatch) -> None:
    run_factory.create_pool(60)
    monkeypatch.setattr(empty_cells, "MOST_RATINGS", 10)
    study = create_draft(**DESIGNS["two raters, no repeats"])
    found = empty_cells.forecast_plan(
        lifecycle.parse_protocol(study.protocol), freeze.preview_opening(lifecycle.parse_protocol(study.protocol))
    )
    assert found.warnings == () and "up to 10 are rehearsed" in found.skipped


def test_plan_page_loads_the_forecast_with_suggested_changes(client) -> None:
    run_factory.create_pool(60)
    study = create_draft(**DESIGNS["two raters, no repeats"])
    client.force_login(User.objects.create_superuser("chief"))
    page = client.get(f"/studies/{study.slug}/matrix/").content.decode()
    assert f'hx-get="/studies/{study.slug}/empty/"' in page
    part = client.get(f"/studies/{study.slug}/empty/").content.decode()
    assert "Test-retest agreement" in part and "Repeat some items" in part
    plan = client.get(f"/studies/{study.slug}/plan.json").json()
    assert (plan["items"], plan["raters"], plan["ratings"]) == (24, 2, 48)
    assert [line["items"] for line in plan["lines"]] == [24, 24]
    cell = next(one for one in plan["empty"] if one["result"] == "retest_agreement")
    assert (cell["missing"], cell["by"], cell["rehearsals"]) == ("number", "design", empty_cells.REHEARSALS)


def test_plan_page_shows_why_a_plan_is_not_possible(client) -> None:
    study = create_draft(**DESIGNS["two raters, no repeats"])
    client.force_login(User.objects.create_superuser("chief"))
    assert "the pool holds 0" in client.get(f"/studies/{study.slug}/empty/").content.decode()
    answer = client.get(f"/studies/{study.slug}/plan.json")
    assert answer.status_code == 409 and "the pool holds 0" in answer.json()["problems"][0]


def test_open_study_has_no_forecast(client) -> None:
    run_factory.create_pool(60)
    study = study_factory.create_open_study(**DESIGNS["two raters, no repeats"])
    client.force_login(User.objects.create_superuser("chief"))
    assert client.get(f"/studies/{study.slug}/empty/").status_code == 204
    assert client.get(f"/studies/{study.slug}/plan.json").status_code == 409


def test_create_study_command_prints_the_forecast_or_the_plan_as_json(tmp_path, capsys) -> None:
    run_factory.create_pool(60)
    file = tmp_path / "study.json"
    file.write_text(json.dumps(study_factory.build_protocol(**DESIGNS["no planted errors"])))
    call_command("create_study", file)
    said = capsys.readouterr().out
    assert "Results that will be empty with this design:" in said
    assert "no rating is of an item with a planted error. To change it, include items with planted errors." in said
    file.write_text(json.dumps(study_factory.build_protocol(**{**DESIGNS["no planted errors"], "name": "Another"})))
    call_command("create_study", file, "--json")
    assert json.loads(capsys.readouterr().out)["items"] == 24


def test_forecast_of_a_pool_study_assumes_that_all_raters_rate_equally_many_items() -> None:
    run_factory.create_pool(60)
    study = create_draft(sources=build_sources(none=12, obvious=12), design="pool", ratings_per_item=3, raters=4)
    assert ("retest_agreement", "number") in {
        (one.key.stat, one.missing) for one in forecast_empty_results(study).warnings if one.sure
    }


def test_forecast_of_a_plan_that_follows_the_suggestions_no_longer_warns() -> None:
    """24 items and 2 raters: too few raters, and six items per error type. 3 raters and 20 items of each kind solve both."""
    few = {(one.key, one.missing): one.change for one in forecast_of("two raters, no repeats").warnings if one.sure}
    run_factory.create_pool(60)
    asked = {"sources": build_sources(none=20, obvious=20), "ratings_per_item": 3, "raters": 3, "name": "More"}
    more = {(one.key, one.missing) for one in forecast_empty_results(create_draft(**asked)).warnings if one.sure}
    new_raters = ResultKind("gwet_ac1", (("target", "new raters"),), "")
    shared = ResultKind("avg_pairwise_agreement", (("min_overlap", "20"), ("source", "offline, obvious error")), "")
    assert few[new_raters, "interval"] == "ask for at least 3 raters"
    assert few[shared, "interval"] == "ask for more items of each source, so that two raters share 20"
    assert not {(new_raters, "interval"), (shared, "interval")} & more


def test_suggestions_for_a_crossover_never_ask_for_repeats() -> None:
    change = find_sure_changes("a crossover")["retest_agreement", "number"]
    assert change == "use a study of another design: a crossover study repeats no item"


def test_forecast_of_contrasts_without_interval_suggests_changes() -> None:
    """Two raters who see both error types: differences of shares have an interval, those of areas and of d' have none."""
    found = [one for one in forecast_of("two raters, no repeats").warnings if one.key.stat == "contrast"]
    run_factory.create_pool(60)
    assert {dict(one.key.scope)["quantity"] for one in found} == {"AUC", "AUC, U-statistic", "d'"}
    assert {(one.where, one.missing, one.sure) for one in found} == {
        ("obvious error less subtle error", "interval", True)
    }
    assert {one.change for one in found} == {"ask for at least 3 raters who rate both sides"}
    three = create_draft(**{**DESIGNS["two raters, no repeats"], "ratings_per_item": 3, "raters": 3, "name": "Three"})
    assert not [one for one in forecast_empty_results(three).warnings if one.sure and one.key.stat == "contrast"]


def test_forecast_assumes_that_items_declared_wrong_are_detected_like_subtle_errors() -> None:
    """At planning values six in ten are detected, as for subtle errors, and seven in a hundred of the others are called wrong."""
    found = compute_rehearsal(create_import_draft({"truth": number % 2 == 0} for number in range(60)))
    assert found["sensitivity"] == pytest.approx(0.6, abs=0.2)
    assert found["specificity"] == pytest.approx(0.93, abs=0.1)


def list_changes(study: Study) -> dict[tuple[str, str], str]:
    """Return what to change for what is surely missing, by statistic and kind."""
    return {(one.key.stat, one.missing): one.change for one in forecast_empty_results(study).warnings if one.sure}


def test_forecast_of_items_without_reference_suggests_perturbation_or_truth() -> None:
    found = list_changes(create_import_draft([{}] * 24, display={"marks": ["if_not_plausible"]}))
    for stat in ("auc_confidence_correct", "sensitivity", "specificity", "dprime", "mrmc_mean_auc"):
        assert found[stat, "number"] == (
            "state the perturbation of the imported items (column `perturbation`) or their truth (column `truth`)"
        )


def test_forecast_does_not_warn_that_the_latent_truth_model_has_no_interval() -> None:
    stats = {one.key.stat for one in forecast_empty_results(create_import_draft([{}] * 24)).warnings}
    assert not {stat for stat in stats if stat.startswith("dawid_skene")}


def test_forecast_of_imported_errors_without_location_suggests_stating_the_location() -> None:
    kinds = [{"perturbation": kind} for kind in ("none", "obvious", "subtle") * 8]
    study = create_import_draft(kinds, display={"marks": ["if_not_plausible"]})
    assert list_changes(study)["localisation", "number"] == (
        "state the location of the errors: when vetting twins, or in the column `field` of imported items"
    )


@pytest.mark.parametrize(
    ("stat", "facts", "change"),
    [
        ("dprime", {"kind": "evidence", "unstated": 9}, "state whether the evidence of the imported records is sufficient (column `truth`)"),
        ("dprime", {"kind": "evidence"}, "no change helps: evidence records have no planted errors; import items whose reference is known"),
        ("dprime", {"kind": "evidence", "unperturbed": 9}, "also import records that are declared insufficient"),
        ("specificity", {"kind": "evidence", "planted": 9}, "also import records that are declared sufficient"),
        ("dprime", {"planted": 9}, "include unperturbed items"),
        ("dprime", {"unperturbed": 9}, "include items with planted errors"),
        ("specificity", {"unperturbed": 9, "unstated": 9}, "ask for more items or more ratings per item"),
    ],
)  # fmt: skip
def test_suggestion_for_a_missing_class_depends_on_the_items_and_design_of_the_plan(stat, facts, change) -> None:
    none = PlanFacts(
        kind="transition", design="crossed", items=9, unperturbed=0, planted=0, unstated=0, located=0, raters=4, per_item=4,
        shared=(9, 9), repeats=0.1, marks=False,
    )  # fmt: skip
    assert suggest_change(stat, {}, "number", "", none._replace(**facts)) == change


def test_results_missing_in_every_simulated_rehearsal_are_attributed_to_the_expected_answers(
    client, tmp_path, capsys
) -> None:
    """Of 24 unperturbed items, seven in a hundred are called wrong: always too few for the interval of a kappa."""
    found = forecast_of("no planted errors")
    expected = [one for one in found.warnings if one.is_expected]
    assert ("fleiss_kappa", "interval") in {(one.key.stat, one.missing) for one in expected}
    assert all(one.times == empty_cells.REHEARSALS and not one.sure for one in expected)
    assert {one.to_dict()["by"] for one in expected} == {"expected answers"}
    assert found.by_expected and all(
        not line.often.startswith(f"{empty_cells.REHEARSALS} of") for line in found.by_answers
    )
    run_factory.create_pool(60)
    study = create_draft(**DESIGNS["no planted errors"])
    client.force_login(User.objects.create_superuser("chief"))
    page = client.get(f"/studies/{study.slug}/empty/").content.decode()
    shown, _, folded = page.partition("<details")
    assert "Empty given the expected answers" in shown and "Fleiss" in shown.partition("given the expected answers")[2]
    assert "20 of 20" not in folded
    file = tmp_path / "study.json"
    file.write_text(
        json.dumps(study_factory.build_protocol(**{**DESIGNS["no planted errors"], "name": "Printed", "practice": 0}))
    )
    call_command("create_study", file)
    printed = capsys.readouterr().out.partition("with the expected answers")[2]
    assert "no interval of" in printed and "Fleiss" in printed


def test_forecast_says_when_only_some_raters_lack_a_result() -> None:
    """Results of single raters are never missing for all raters here."""
    where = {
        one.where
        for name in ("four raters of six", "crossed, with repeats")
        for one in forecast_of(name).warnings
        if not one.sure
    }
    assert any(text.startswith("some raters") or text.startswith("some pairs of raters") for text in where)
