"""A study of outcomes simulated by language models: page, files, API and docs name the same reference and agree on its numbers."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from ratings.exchange import exports, long_tables
from ratings.exchange.archive import texts
from ratings.models import ItemSource, Study
from ratings.raters import simulated_raters
from ratings.results.analyses import store
from ratings.results.analyses.filters import Filters
from ratings.results.analyses.tables import COLUMNS, TABLE_SPECS, list_records
from ratings.results.figures.registry import FIGURES
from ratings.stats import Estimate
from ratings.stats.proportions import NO_RATINGS
from ratings.stats.ratings_table import (
    DECLARED,
    MIXED,
    NO_TRUTH,
    PLANTED,
    REFERENCES,
    UNKNOWN,
    WITH_ERROR,
    WITHOUT_ERROR,
)
from ratings.stats.summary_text import build_sections
from ratings.studies import lifecycle
from simulation.models import Run
from tests.support import api_client, exported_study, imrmc_reader, run_factory, study_factory

pytestmark = pytest.mark.django_db
DOCS = Path(__file__).parents[2] / "docs"
SENTENCE = REFERENCES[PLANTED]
COLUMN = "no item states its perturbation: import a column `perturbation` or `truth`"


@pytest.fixture
def boss() -> User:
    return User.objects.create_superuser("boss", password="a password for tests only")


@pytest.fixture
def study(boss: User) -> Study:
    """Forty steps simulated by a language model and forty twins, each rated by six simulated raters, and unblinded."""
    run_factory.create_pool(40)
    Run.objects.update(setup={"cast": {"transition_model": {"model": "claude-sonnet-4"}}})
    sources = [
        {"cast": "offline", "perturbation": "none", "count": 20},
        {"cast": "offline", "perturbation": "obvious", "count": 10},
        {"cast": "offline", "perturbation": "subtle", "count": 10},
    ]
    study = study_factory.create_open_study(
        raters=6, slug="models", sources=sources, ratings_per_item=6, design="crossed"
    )
    simulated_raters.simulate_raters(study, 6, 0.9, 0.4, 0.9, seed=3)
    return study_factory.unblind_study(study, boss)


def compute_analysis(study: Study) -> dict[str, Any]:
    return store.compute_analysis(study, Filters()).document


def test_reference_label_of_a_simulated_original_is_unperturbed_and_its_truth_is_unknown(study: Study) -> None:
    rows = set(ItemSource.objects.values_list("perturbation", "reference", "truth"))
    assert rows == {
        ("none", "unperturbed", None), ("obvious", "planted", False), ("subtle", "planted", False),
    }  # fmt: skip


def test_reference_labels_suffice_to_compute_error_detection_even_if_no_truth_is_declared(study: Study) -> None:
    document = compute_analysis(study)
    values = {entry["key"]: entry["value"] for entry in document["headline"]}
    assert None not in values.values()
    pooled = {
        row["stat"]: row
        for row in document["results"]
        if row["reference"] and not {"rater", "source"} & set(row["args"])
    }
    assert {
        "specificity",
        "sensitivity",
        "dprime",
        "criterion_c",
        "auc_signed",
        "mrmc_mean_auc",
        "auc_confidence_correct",
    } <= set(pooled)
    assert [name for name, row in pooled.items() if row["value"] is None] == []
    # 20 unperturbed items and 20 with planted errors, six ratings each: the paper's quantity uses all 240.
    assert pooled["auc_confidence_correct"]["n"]["ratings"] == 240
    assert (pooled["specificity"]["n"]["ratings"], pooled["sensitivity"]["n"]["ratings"]) == (120, 120)


def test_reference_name_and_results_are_the_same_in_page_json_csv_archive_imrmc_api_and_docs(
    study: Study, boss: User, client: Client
) -> None:
    document = compute_analysis(study)
    detection = {
        row["source"]: row for row in list_records(document["tables"]["detection"]) if row["who"] == "all raters"
    }
    specificity = detection["all errors"]["specificity"]
    assert (document["reference"]["name"], document["reference"]["items"]) == (PLANTED, 40)

    client.force_login(boss)
    page = client.get(reverse("ratings:study", args=[study.slug])).content.decode()
    assert SENTENCE.replace("'", "&#x27;") in page
    table = client.get(reverse("ratings:table_csv", args=[study.slug, "detection"])).getvalue().decode("utf-8-sig")
    first = exported_study.parse_csv(table.encode())[0]
    assert (float(first["specificity"]), first["reference_name"]) == (pytest.approx(specificity, abs=5e-4), PLANTED)

    ratings = "".join(exports.export_csv_lines(study, blinded=False)).encode()
    read = long_tables.parse_long_csv(
        ratings.splitlines(keepends=True), None, lambda source, error: f"{source}, {error} error"
    ).table
    assert read.reference_name == PLANTED and (read.item_reference == 1).sum() == (read.item_reference == 0).sum() == 20

    files = exported_study.unzip_files(exported_study.build_archive(study, blinded=False))
    assert json.loads(files["results.json"]) == document
    assert SENTENCE in files["methods.txt"].decode()
    assert {row["reference"] for row in exported_study.parse_csv(files["items.csv"])} == {"planted", "unperturbed"}
    names = [name for name in files if name.endswith(".imrmc")]
    assert len(names) == 2
    for name in names:
        text = files[name].decode()
        assert f"Reference: {SENTENCE}." in text and "N0: 20\nN1: 10\n" in text
        assert sorted(imrmc_reader.parse_reader_study(text).truth.values()) == [0] * 20 + [1] * 10

        # The file alone, read by the format's published description, gives the areas of the page.
        named = unquote(text.splitlines()[1])
        source = next(
            source for source in list_error_sources(document) if named.startswith(f"Signal: {source}, truth 1")
        )
        mine = compute_mean_area(text)
        ours = next(
            row for row in document["results"] if row["stat"] == "mrmc_mean_auc" and row["args"] == {"source": source}
        )
        assert mine == pytest.approx(ours["value"], abs=1e-9)

    program = api_client.create_api_program(boss, "statistics:read", "items:unblinded", "items:blinded", "studies:read")
    answer = program.send_request(f"/studies/{study.slug}/statistics").json()
    assert (
        answer["reference"] == document["reference"]
        and answer["tables"]["detection"] == document["tables"]["detection"]
    )
    items = program.list_rows(f"/studies/{study.slug}/items")
    assert {(item["source"]["reference"], item["source"]["truth"]) for item in items} == {
        ("unperturbed", None), ("planted", False),
    }  # fmt: skip

    docs = " ".join((DOCS / "statistics.md").read_text().split())
    for sentence in REFERENCES.values():
        assert sentence in docs


def list_error_sources(document: dict[str, Any]) -> list[str]:
    return [row["source"] for row in list_records(document["tables"]["rates"]) if row["error"] != "none"]


def compute_mean_area(text: str) -> float:
    """Return the mean over readers of the area of an iMRMC file, read as the program's manual describes it.

    After the line BEGIN DATA: each line has reader, case, modality and score; the lines of reader -1 have each case's truth.
    """
    lines = [line.split(",") for line in text.split("BEGIN DATA:")[1].strip().splitlines()]
    truth = {case: int(score) for reader, case, _, score in lines if reader == "-1"}
    readings: dict[str, list[tuple[int, float]]] = {}
    for reader, case, _, score in lines:
        if reader != "-1":
            readings.setdefault(reader, []).append((truth[case], float(score)))
    areas = []
    for own in readings.values():
        pairs = [(high, low) for signal, high in own if signal for other, low in own if not other]
        areas.append(sum((high > low) + 0.5 * (high == low) for high, low in pairs) / len(pairs))
    return sum(areas) / len(areas)


@pytest.mark.parametrize(
    ("references", "name"),
    [
        (("planted", "unperturbed"), PLANTED), (("declared wrong", "declared right"), DECLARED),
        (("planted", "declared right"), MIXED), (("", ""), UNKNOWN),
    ],
)  # fmt: skip
def test_reference_name_depends_on_whether_labels_are_planted_or_declared(
    study: Study, references: tuple[str, str], name: str
) -> None:
    ItemSource.objects.filter(reference="planted").update(reference=references[0])
    ItemSource.objects.filter(reference="unperturbed").update(reference=references[1])
    document = compute_analysis(study)
    assert document["reference"]["name"] == name
    assert any(REFERENCES[name] in note for note in document["notes"])
    known = {
        row["stat"]: row["value"] for row in document["results"] if row["stat"] in ("plausibility_rate", "specificity")
    }
    assert known["plausibility_rate"] is not None and (known["specificity"] is None) == (name == UNKNOWN)

    with_error, without = WITH_ERROR[name], WITHOUT_ERROR[name]
    said = {
        line.name for section in build_sections(map(Estimate.from_dict, document["results"])) for line in section.lines
    }
    assert {
        f"Sensitivity: {with_error} items rated not plausible",
        f"Specificity: {without} items rated plausible",
        f"AUC of the signed rating: {with_error} against {without}, mean over raters",
    } <= said
    captions = texts.format_tables(document)
    assert ("detection" in captions) == (name != UNKNOWN)
    assert name == UNKNOWN or f"{with_error} against {without}" in captions["detection"]


def test_reference_is_not_named_in_headings_that_apply_to_every_reference() -> None:
    assert not [
        text for text in (FIGURES["roc"].title, FIGURES["roc"].note) if "lanted" in text or "nperturbed" in text
    ]
    named = {
        "source",
        "localised",
        "localised_of",
        "reference_name",
    }  # these say of planted errors what is so of them alone
    told = [COLUMNS[name] for form in ("roc", "detection") for name in TABLE_SPECS[form].columns if name not in named]
    assert not [one for one in told if "lanted" in one.meaning or "nperturbed" in one.title + one.meaning]


def read_reasons(document: dict[str, Any]) -> dict[str, str]:
    """Return the reason of each number of the headline that has no value."""
    return {entry["key"]: entry["reason"] for entry in document["headline"] if entry["value"] is None}


def test_reference_column_is_requested_by_every_error_result_if_no_item_has_a_reference_label(study: Study) -> None:
    ItemSource.objects.update(reference="", perturbation="none", truth=None)
    document = compute_analysis(study)
    assert read_reasons(document) == {
        **dict.fromkeys(("plausible_unperturbed", "obvious_caught", "subtle_caught", "auc"), COLUMN)
    }
    missing = {row["reason"] for row in document["results"] if row["reference"] and row["value"] is None}
    assert missing == {COLUMN}


@pytest.mark.parametrize(
    ("kept", "references", "reasons"),
    [
        ("unperturbed", {}, ("", "no subtle error was planted", "no rating is of an item with a planted error")),
        ("planted", {}, ("no rating is of an unperturbed item", "", "no rating is of an unperturbed item")),
        (
            "unperturbed", {"unperturbed": "declared right"},
            ("", "no item states its perturbation: import a column `perturbation`", "no rating is of a declared wrong item"),
        ),
        (
            "planted", {"planted": "declared wrong"},
            (
                "no rating is of a declared right item", "no item states its perturbation: import a column `perturbation`",
                "no rating is of a declared right item",
            ),
        ),
    ],
)  # fmt: skip
def test_reference_class_without_ratings_is_named_as_the_reason_for_a_missing_result(
    study: Study, kept: str, references: dict[str, str], reasons: tuple[str, str, str]
) -> None:
    ItemSource.objects.exclude(reference=kept).update(reference="", perturbation="none", truth=None)
    for old, new in references.items():
        ItemSource.objects.filter(reference=old).update(reference=new, perturbation="none")
    document = compute_analysis(study)
    found = read_reasons(document)
    d_prime = next(row for row in document["results"] if row["stat"] == "dprime")
    assert (found.get("plausible_unperturbed", ""), found.get("subtle_caught", ""), d_prime["reason"]) == reasons


def test_error_results_without_any_rating_state_that_there_are_no_ratings(study: Study) -> None:
    study.raters.update(dropped=True, withdrawn_at=timezone.now())
    document = compute_analysis(study)
    assert {read_reasons(document)[key] for key in ("plausible_unperturbed", "subtle_caught", "auc")} == {NO_RATINGS}


def test_items_without_a_reference_label_are_not_counted_as_unperturbed(
    study: Study, boss: User, client: Client
) -> None:
    chosen = ItemSource.objects.filter(reference="unperturbed").order_by("pk").values_list("pk", flat=True)[:8]
    ItemSource.objects.filter(pk__in=list(chosen)).update(reference="")
    about = compute_analysis(study)["composition"]
    said = "20 planted, 12 unperturbed, 8 not known"
    assert (
        about["references"] == {"planted": 20, "unperturbed": 12, "not known": 8} and about["references_said"] == said
    )
    assert about["planted_share"] == 20 / 32
    assert about["errors"] == {"none": 12, "not known": 8, "obvious": 10, "subtle": 10}
    client.force_login(boss)
    assert f"These items: {said}." in client.get(reverse("ratings:study", args=[study.slug])).content.decode()
    assert (
        said in exported_study.unzip_files(exported_study.build_archive(study, blinded=False))["methods.txt"].decode()
    )


def test_unstated_perturbation_is_an_empty_cell_in_every_file_and_in_the_api(study: Study, boss: User) -> None:
    """One item each is unknown, declared correct and declared wrong, with the same source name; all others are unchanged."""
    chosen = list(ItemSource.objects.filter(reference="unperturbed").order_by("pk")[:3])
    for source, reference in zip(chosen, ("", "declared right", "declared wrong"), strict=True):
        ItemSource.objects.filter(pk=source.pk).update(reference=reference, label="elsewhere")
    expected = {
        str(source.item.code): source.perturbation if source.reference in ("planted", "unperturbed") else ""
        for source in ItemSource.objects.select_related("item")
    }
    assert sorted(expected.values()).count("") == 3

    files = exported_study.unzip_files(exported_study.build_archive(study, blinded=False))
    for name in ("ratings.csv", "ratings_wide.csv", "items.csv"):
        assert {row["item"]: row["perturbation"] for row in exported_study.parse_csv(files[name])} == expected, name
    program = api_client.create_api_program(boss, "items:unblinded", "items:blinded", "studies:read")
    items = program.list_rows(f"/studies/{study.slug}/items")
    assert {item["item"]: item["source"]["perturbation"] or "" for item in items} == expected
    rates = {row["source"]: row["error"] for row in list_records(json.loads(files["results.json"])["tables"]["rates"])}
    assert rates["elsewhere"] == "declared right, declared wrong, not known"
    assert (rates["offline"], rates["offline, subtle error"]) == ("none", "subtle")
    table = {row["source"]: row["error"] for row in exported_study.parse_csv(files["tables/rates.csv"])}
    assert table == rates


def test_results_of_evidence_records_have_no_note_on_planted_errors(boss: User) -> None:
    run_factory.create_evidence_pool(6)
    study = lifecycle.create_study(
        lifecycle.parse_protocol(study_factory.build_evidence_protocol(6, slug="records", ratings_per_item=3))
    )
    lifecycle.open_study(study, 3)
    simulated_raters.simulate_raters(study, 3, 0.9, 0.4, 0.9, seed=3)
    study = study_factory.unblind_study(study, boss)
    document = compute_analysis(study)
    assert document["reference"] == {"name": NO_TRUTH, "description": REFERENCES[NO_TRUTH], "items": 0}
    told = [*document["notes"], *(note for table in document["tables"].values() for note in table["notes"])]
    told += [row["reason"] for row in document["results"]]
    told.append(exported_study.unzip_files(exported_study.build_archive(study, blinded=False))["methods.txt"].decode())
    assert not [text for text in told if "perturbation" in text or "Reference" in text or "reference" in text]
    d_prime = next(row for row in document["results"] if row["stat"] == "dprime")
    assert d_prime["reason"] == "no record states its truth: import a column `truth`"


def test_latent_truth_is_estimated_only_without_a_reference(study: Study) -> None:
    found = [row for row in compute_analysis(study)["results"] if row["stat"].startswith("dawid_skene")]
    assert [row["reason"] for row in found] == ["items have a known reference; nothing needs estimating"]
    docs = " ".join((DOCS / "statistics.md").read_text().split())
    assert "Undefined below three raters and where a reference is known." in docs
