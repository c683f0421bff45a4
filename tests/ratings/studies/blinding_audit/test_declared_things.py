"""A name that a person declared a thing in the laboratory passes the audit in its own item only."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from ratings.blinding import payload_digest
from ratings.exchange.archive import study_facts
from ratings.models import Item, Quarantine, Study
from ratings.studies.blinding_audit import audit_runner, stored_items
from ratings.studies.blinding_audit.findings import Check
from ratings.studies.blinding_audit.stored_items import collect_sealed_values
from tests.support.audit_studies import open_study_to_audit

pytestmark = pytest.mark.django_db


def _let_in(study: Study, item: Item, text: str, things: list[list[str]]) -> None:
    item.payload["observations"] = [{"type": "visual", "description": text, "value": ""}]
    item.payload_sha256 = payload_digest(item.payload)
    item.save()
    Quarantine.objects.create(
        study=study, payload_sha256=item.payload_sha256, payload={}, decision="released", things=things
    )


def _checks(study: Study) -> list[Check]:
    return stored_items.check_payloads(study, collect_sealed_values(study))


def _names(study: Study) -> Check:
    return next(check for check in _checks(study) if check.name == "names of sources")


@pytest.fixture
def study(laboratory: None) -> Study:
    return open_study_to_audit()


def test_audit_passes_a_declared_name_and_lists_it_in_the_certificate_and_on_the_page(
    study: Study, client: Client
) -> None:
    item = study.items.order_by("pk")[0]
    _let_in(study, item, "Mounted Gemini, 3 um", [["gemini", "an HPLC column"]])
    assert _names(study).is_passed
    report: dict[str, Any] = audit_runner.build_report(study, _checks(study))
    expected = [{"word": "gemini", "reason": "an HPLC column", "items": 1}]
    assert report["declared_things"] == expected and str(item.code) not in str(report["declared_things"])
    audit_runner.store_report(study, report)
    shown = study_facts.get_blinding_certificate(study, blinded=True)
    assert shown and shown["report"]["declared_things"] == expected
    client.force_login(User.objects.create_superuser("root"))
    page = client.get(reverse("ratings:audit", args=[study.slug])).content.decode()
    assert "“<bdi>gemini</bdi>”, <bdi>an HPLC column</bdi> (1 item)" in page


def test_audit_fails_on_a_released_item_with_a_source_name_that_was_not_declared(study: Study) -> None:
    first, second = study.items.order_by("pk")[:2]
    _let_in(study, first, "Mounted Gemini, 3 um", [])
    _let_in(study, second, "Mounted Gemini, by Claude", [["gemini", "an HPLC column"]])
    found = _names(study)
    assert {leak.where.split(":")[0] for leak in found.leaks} == {f"item {first.code}", f"item {second.code}"}
    assert found.measured["declared_things"] == [{"word": "gemini", "reason": "an HPLC column", "items": 1}]
