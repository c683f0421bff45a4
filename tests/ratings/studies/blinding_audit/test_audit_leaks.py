"""The blinding audit fails on each of many leaks and names it."""

from collections.abc import Callable
from typing import Any

import pytest

from ratings.models import (
    Assignment,
    Item,
    ItemSource,
    Study,
)
from ratings.studies import pool
from ratings.studies.blinding_audit import form_tests, order_tests, stored_items
from ratings.studies.blinding_audit.stored_items import collect_sealed_values
from simulation.models import Twin
from tests.support.audit_studies import add_leak, describe_leaks, open_study_to_audit, run_audit

pytestmark = pytest.mark.django_db


def of_payloads(study: Study) -> dict[str, Any]:
    """Return the report of the checks that read payloads and fetch no page."""
    checks = stored_items.check_payloads(study, collect_sealed_values(study))
    return {"passed": not any(check.has_failed for check in checks), "checks": [check.to_dict() for check in checks]}


def of_order(study: Study) -> dict[str, Any]:
    """Return the report of the checks of positions and rows."""
    checks = order_tests.check_orders(study)
    return {"passed": not any(check.has_failed for check in checks), "checks": [check.to_dict() for check in checks]}


def test_audit_reports_an_additional_payload_key(laboratory: None, monkeypatch: pytest.MonkeyPatch) -> None:
    blind = pool.blind_transition
    monkeypatch.setattr(pool, "blind_transition", lambda *given: {**blind(*given), "model": "x2" if given[1:] else ""})
    assert "payload: payload key 'model'" in describe_leaks(of_payloads(open_study_to_audit()), "payload keys")


@pytest.mark.thorough
def test_audit_reports_a_nested_payload_key(study: Study) -> None:
    item = study.items.first()
    assert item
    item.payload["before"][0]["barcode"] = "x"
    item.save()
    report = run_audit(study)
    assert "payload.before[]: payload key 'barcode'" in describe_leaks(report, "payload keys")
    assert "does not match its digest" in describe_leaks(report, "payload digest")


def test_audit_reports_words_of_a_secret_explanation_in_texts_shown_to_raters(study: Study) -> None:
    source = ItemSource.objects.filter(item__study=study, perturbation="subtle").select_related("item", "twin").first()
    assert source and source.twin
    Twin.objects.filter(pk=source.twin.pk).update(explanation="somebody doubled what was poured into the second tube")
    told = "It looks as if somebody doubled what was poured into it. SECRET: so it is"
    source.item.payload["observations"] = [{"type": "visual", "description": told, "value": ""}]
    source.item.save()
    report = of_payloads(study)
    said = describe_leaks(report, "payload words")
    assert "six words of its own explanation: “somebody doubled what was poured into”" in said
    assert "the word “secret”" in said


@pytest.mark.thorough
def test_audit_reports_twins_whose_properties_are_in_another_order(
    laboratory: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    blind = pool.blind_transition

    def reversed_for_twins(*given: Any) -> dict[str, Any]:
        payload = blind(*given)
        if given[1:]:
            for material in payload["after"]:
                material["properties"] = material["properties"][::-1]
        return payload

    monkeypatch.setattr(pool, "blind_transition", reversed_for_twins)
    assert "key order: " in describe_leaks(run_audit(open_study_to_audit()), "payload order")


def _header(report: dict[str, Any]) -> None:
    assert "header X-Item-Kind differs between items" in describe_leaks(report, "headers")
    assert "header X-Item-Kind: the error type: 'subtle'" in describe_leaks(report, "sent words")
    assert "X-Item-Kind" in describe_leaks(report, "another origin")


def _attribute(report: dict[str, Any]) -> None:
    assert 'data-layout="v2"' in describe_leaks(report, "another origin")


def _row(report: dict[str, Any]) -> None:
    assert "the number of the item's row (pk) in '?item=#" in describe_leaks(report, "database numbers")


SENT = {"mark_header": _header, "mark_card": _attribute, "add_row_to_address": _row}


def test_audit_reports_an_attribute_that_differs_by_source_and_a_database_key_in_an_address(
    small: Study, settings: Any
) -> None:
    """A header is covered by the test of the command."""
    for middleware in ("mark_card", "add_row_to_address"):
        add_leak(settings, middleware)
    report = run_audit(small)
    _attribute(report)
    _row(report)


@pytest.mark.thorough
@pytest.mark.parametrize("middleware", SENT)
def test_audit_reports_each_planted_leak_that_is_the_only_one(small: Study, settings: Any, middleware: str) -> None:
    add_leak(settings, middleware)
    SENT[middleware](run_audit(small))


@pytest.mark.thorough
def test_audit_reports_item_pages_that_take_longer_for_twins(laboratory: None, settings: Any) -> None:
    study = open_study_to_audit(each=5)
    add_leak(settings, "delay_twins")
    assert "planted errors take" in describe_leaks(run_audit(study), "timing")


@pytest.mark.thorough
def test_audit_reports_a_source_in_the_raters_own_download(study: Study, settings: Any) -> None:
    add_leak(settings, "add_model_to_download")
    assert "own ratings, the body: the source: 'offline'" in describe_leaks(run_audit(study), "sent words")


@pytest.mark.thorough
def test_audit_reports_a_header_that_allows_caching(study: Study, settings: Any) -> None:
    add_leak(settings, "add_etag")
    assert "header ETag" in describe_leaks(run_audit(study), "headers")


@pytest.mark.thorough
def test_audit_reports_if_strangers_get_a_different_response_for_existing_items(study: Study, settings: Any) -> None:
    add_leak(settings, "reveal_existence")
    assert "answered differently from an item that does not exist (404)" in describe_leaks(
        run_audit(study), "closed doors"
    )


def test_audit_reports_items_ordered_by_error_type(laboratory: None) -> None:
    study = open_study_to_audit(ratings_per_item=2, raters=6, each=5)
    assignments = (
        Assignment.objects.filter(rater__study=study).select_related("item__source").order_by("rater", "position")
    )
    for rater in study.raters.all():
        own = sorted((p for p in assignments if p.rater_id == rater.pk), key=lambda p: p.item.source.perturbation)
        for at, assignment in enumerate(own):
            Assignment.objects.filter(pk=assignment.pk).update(position=1000 + at)
    assert "position and planted errors are associated: AUC " in describe_leaks(of_order(study), "order")


@pytest.mark.thorough
def test_audit_reports_items_frozen_in_the_order_of_their_sources(
    laboratory: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the batch had not been shuffled: payloads are sorted so that rows with planted errors come last."""
    study = open_study_to_audit(each=5)
    rows = list(Item.objects.filter(study=study).order_by("pk"))
    sources = sorted(ItemSource.objects.filter(item__study=study), key=lambda s: s.perturbation != "none")
    for source in sources:
        Item.objects.filter(pk=source.item_id).update(payload_sha256=f"{source.pk}")
    payloads = [(s.item.payload, s) for s in sources]
    ItemSource.objects.filter(item__study=study).delete()
    for item, (payload, source) in zip(rows, payloads, strict=True):
        Item.objects.filter(pk=item.pk).update(payload=payload)
        source.pk, source.item = None, item
        source.save()
    assert "the item's row and planted errors are associated" in describe_leaks(run_audit(study), "order")


@pytest.mark.thorough
def test_audit_reports_twins_with_another_number_format(laboratory: None) -> None:
    study = open_study_to_audit(each=7)
    for source in ItemSource.objects.filter(item__study=study, twin__isnull=False).select_related("item"):
        for material in source.item.payload["after"]:
            material["properties"] = [[label, f"{value}, approx. 1.0000"] for label, value in material["properties"]]
        for seen in source.item.payload["observations"]:
            seen["value"] += ", approx. 1.0000"
        source.item.save()
    assert "decimals a number: AUC 1.00" in describe_leaks(run_audit(study), "form of twins")


MARKS = {
    "set_leaking_cookie": "item: 'Set-Cookie: view=",
    "mark_draft": "draft: 'X-Cache: ",
    "mark_head": "item, HEAD: 'X-Cache: ",
    "mark_options": "item, OPTIONS: 'X-Cache: ",
    "mark_last_page": "last page: '<a ",
    "mark_redirect": "plain answer: 'Location: /rate/(code)/?v=",
}


@pytest.mark.parametrize(
    "marked",
    [
        pytest.param(["mark_last_page"], id="last page"),
        pytest.param([name for name in MARKS if name != "mark_last_page"], id="all others"),
    ],
)
def test_audit_reports_leaks_in_several_requests_all_together(small: Study, settings: Any, marked: list[str]) -> None:
    """Each middleware marks another request, and one audit names them all. The last page has several marks."""
    for middleware in marked:
        add_leak(settings, middleware)
    said = describe_leaks(run_audit(small), "another origin")
    assert [name for name in marked if MARKS[name] not in said] == []


@pytest.mark.thorough
@pytest.mark.parametrize(("middleware", "told"), MARKS.items())
def test_audit_reports_a_single_leak_in_any_part_of_a_response(
    small: Study, settings: Any, middleware: str, told: str
) -> None:
    add_leak(settings, middleware)
    assert told in describe_leaks(run_audit(small), "another origin")


@pytest.mark.thorough
def test_audit_reports_responses_that_take_longer_after_rating_a_planted_error(laboratory: None, settings: Any) -> None:
    add_leak(settings, "delay_answers")
    said = describe_leaks(run_audit(open_study_to_audit(each=4, raters=1)), "timing")
    assert "timing of answer: planted errors take" in said or "timing of plain answer: planted errors take" in said


def _twins_rewritten(study: Study, rewrite: Callable[[Item], None]) -> str:
    """Return the text of the form check after every twin of the study was given another form."""
    sources = list(
        ItemSource.objects.filter(item__study=study).select_related("item", "twin", "transition__episode__experiment")
    )
    for source in sources:
        if source.twin:
            rewrite(source.item)
    check = next(one for one in form_tests.check_forms(sources) if one.name == "form of twins")
    return "\n".join(leak.what for leak in check.leaks)


def _without_lineage(item: Item) -> None:
    item.payload["lineage"] = False
    for material in item.payload["after"]:
        material["continues"] = ""


def _without_context(item: Item) -> None:
    item.context = {}


def _with_other_blanks(item: Item) -> None:
    for material in item.payload["after"]:
        material["properties"] = [[name, value.replace(" ", "\u00a0")] for name, value in material["properties"]]
        material["name"] = material["name"].replace(" ", "\u00a0")


def _with_full_stops(item: Item) -> None:
    for material in item.payload["after"]:
        material["name"] += "."


def _with_another_sign(item: Item) -> None:
    for material in item.payload["after"]:
        material["name"] += " ×1 \u03bcL"


def _with_small_references(item: Item) -> None:
    for material in item.payload["after"]:
        material["ref"] = material["ref"].lower()


@pytest.mark.parametrize(
    ("rewrite", "told"),
    [
        (_without_lineage, "lineage known"),
        (_without_context, "characters of context"),
        (_with_other_blanks, "the sign U+00A0"),
        (_with_full_stops, "texts that end with a full stop"),
        (_with_another_sign, "the sign U+03BC"),
        (_with_small_references, "references that are capital letters"),
    ],
)
def test_audit_reports_twins_whose_payload_differs_in_form(
    dealt: Study, rewrite: Callable[[Item], None], told: str
) -> None:
    assert f"{told}: AUC" in _twins_rewritten(dealt, rewrite)


def test_audit_reports_nothing_about_the_form_of_unchanged_twins(dealt: Study) -> None:
    assert _twins_rewritten(dealt, lambda item: None) == ""
