"""A name that a person declared a thing in the laboratory passes the audit in its own item only."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from ratings.blinding import payload_digest
from ratings.exchange.archive import design
from ratings.models import Item, Quarantine, Study
from ratings.studies.blinding_audit import auditing, payloads
from ratings.studies.blinding_audit.findings import Check
from ratings.studies.blinding_audit.sealed import sealed
from tests.support.audited import opened

pytestmark = pytest.mark.django_db


def _let_in(study: Study, item: Item, text: str, things: list[list[str]]) -> None:
    item.payload["observations"] = [{"type": "visual", "description": text, "value": ""}]
    item.payload_sha256 = payload_digest(item.payload)
    item.save()
    Quarantine.objects.create(
        study=study, payload_sha256=item.payload_sha256, payload={}, decision="released", things=things
    )


def _checks(study: Study) -> list[Check]:
    return payloads.checks(study, sealed(study))


def _names(study: Study) -> Check:
    return next(check for check in _checks(study) if check.name == "names of sources")


@pytest.fixture
def study(laboratory: None) -> Study:
    return opened()


def test_declared_name_passes_and_is_listed_in_the_certificate_and_on_the_page(study: Study, client: Client) -> None:
    item = study.items.order_by("pk")[0]
    _let_in(study, item, "Mounted Gemini, 3 um", [["gemini", "an HPLC column"]])
    assert _names(study).passed
    report: dict[str, Any] = auditing.report(study, _checks(study))
    expected = [{"word": "gemini", "reason": "an HPLC column", "items": 1}]
    assert report["declared_things"] == expected and str(item.code) not in str(report["declared_things"])
    auditing.store(study, report)
    shown = design.certificate(study, blinded=True)
    assert shown and shown["report"]["declared_things"] == expected
    client.force_login(User.objects.create_superuser("root"))
    page = client.get(reverse("ratings:audit", args=[study.slug])).content.decode()
    assert "“<bdi>gemini</bdi>”, <bdi>an HPLC column</bdi> (1 item)" in page


def test_released_item_with_an_undeclared_name_fails(study: Study) -> None:
    first, second = study.items.order_by("pk")[:2]
    _let_in(study, first, "Mounted Gemini, 3 um", [])
    _let_in(study, second, "Mounted Gemini, by Claude", [["gemini", "an HPLC column"]])
    found = _names(study)
    assert {leak.where.split(":")[0] for leak in found.leaks} == {f"item {first.code}", f"item {second.code}"}
    assert found.measured["declared_things"] == [{"word": "gemini", "reason": "an HPLC column", "items": 1}]
