"""The blinding audit passes on real studies, reports no false alarms, and is run by a command and a page."""

import json
import threading
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from ratings.blinding import payload_digest
from ratings.models import (
    EVIDENCE,
    TRANSITION,
    Assignment,
    BlindingAudit,
    Item,
    ItemSource,
    PublicPage,
    Rater,
    Rating,
    Study,
    UnsavedAnswer,
)
from ratings.stats.differences import adjust_by_holm
from ratings.studies import lifecycle, public_page
from ratings.studies.blinding_audit import audit_runner, form_tests, order_tests, stored_items, visits
from ratings.studies.blinding_audit.browser import Page
from ratings.studies.blinding_audit.findings import Check
from ratings.studies.blinding_audit.stored_items import collect_sealed_values
from simulation.engine import workers
from simulation.models import Twin
from tests.support.audit_studies import SLUG, add_leak, describe_leaks, open_study_to_audit, run_audit

pytestmark = pytest.mark.django_db


# Real studies pass


@pytest.mark.parametrize("kind", [TRANSITION, EVIDENCE])
def test_audit_of_a_real_study_passes_and_examines_everything(laboratory: None, kind: str, settings: Any) -> None:
    settings.WRITES_PER_MINUTE = 2  # by people; the audit's own requests are not counted
    study = (
        open_study_to_audit(kind, each=6, ratings_per_item=2, raters=2)
        if kind == TRANSITION
        else open_study_to_audit(kind)
    )
    audit = audit_runner.run_audit(study)
    report = audit.report
    assert audit.passed and report["passed"], report["leaks"]
    shown = next(one for one in report["checks"] if one["name"] == "answers")["measured"]
    work = Assignment.objects.filter(rater__study=study).count()
    assert shown["item fragment, 200"] == shown["answer, 200"] == work >= study.items.count()
    assert shown["no such item, 404"] == study.raters.count()
    assert not [
        one["name"] for one in report["checks"] if one["skipped"] and kind == TRANSITION and "style" not in one["name"]
    ]
    doors = next(one for one in report["checks"] if one["name"] == "closed doors")
    assert doors["looked_at"] == 2 * study.items.count()


@pytest.mark.thorough
def test_audit_passes_for_every_combination_of_layout_context_and_marks(laboratory: None) -> None:
    arms = {"layouts": ["plain", "aligned", "balance", "confirm"], "context": [True, False], "by": "item",
            "marks": ["off", "if_not_plausible", "always"]}  # fmt: skip
    report = run_audit(open_study_to_audit(each=4, display=arms))
    assert report["passed"], report["leaks"]


def test_audit_examines_items_that_nobody_has_reserved(laboratory: None) -> None:
    """With two raters, the next item offered would change if pairs were swapped together with the origins."""
    study = open_study_to_audit(each=2, design="pool", raters=2)
    report = run_audit(study)
    shown = next(one for one in report["checks"] if one["name"] == "answers")["measured"]
    assert report["passed"], report["leaks"]
    assert shown["item fragment, 200"] == study.items.count() == 6


def test_audit_stores_its_report_and_changes_nothing_else(laboratory: None) -> None:
    study = open_study_to_audit(each=1, raters=1)
    rater = study.raters.first()
    before = list(Rater.objects.order_by("pk").values()), list(Assignment.objects.order_by("pk").values())
    sources = list(ItemSource.objects.order_by("pk").values())
    audit_runner.run_audit(study)
    assert rater and before == (
        list(Rater.objects.order_by("pk").values()),
        list(Assignment.objects.order_by("pk").values()),
    )
    assert sources == list(ItemSource.objects.order_by("pk").values())
    assert not Rating.objects.exists() and not UnsavedAnswer.objects.exists()
    assert study.events.filter(kind="audited", data={"passed": True}).count() == 1


def test_audit_of_a_closed_study_requests_its_pages_as_if_it_were_open(laboratory: None) -> None:
    study = open_study_to_audit(each=1, raters=1)
    lifecycle.close_study(study)
    audit = audit_runner.run_audit(Study.objects.get(pk=study.pk))
    assert audit.passed and Study.objects.get(pk=study.pk).status == "closed"


# The public page


def test_audit_examines_the_public_page_and_reports_words_that_were_stored_without_the_form(laboratory: None) -> None:
    study = open_study_to_audit(each=1, raters=1)
    public_page.save_texts(study, {"about": "Steps of protocols.", "who": "Biologists.", "contact": "Ada"})
    without = run_audit(study)
    public_page.set_on(study, is_on=True)
    report = run_audit(study)
    counted = [{one["name"]: one for one in found["checks"]}["answers"]["measured"] for found in (without, report)]
    assert report["passed"], report["leaks"]
    assert "public page, 200" not in counted[0] and counted[1]["public page, 200"] == 1
    # Words that pages of the interface contain too, and a name that was in no list when the text was saved.
    PublicPage.objects.filter(study=study).update(about="Some steps have obvious errors,\nmade by GPT-4.")
    leaks = describe_leaks(run_audit(study), "sent words")
    assert "public page, about: the error type: 'obvious'" in leaks
    assert "public page, about: line 2: “gpt” is the name of a model" in leaks


# False alarms


def _order_of(study: Study) -> dict[str, Check]:
    return {check.name: check for check in order_tests.check_orders(study)}


def test_audit_does_not_report_that_items_added_to_an_open_study_come_later(laboratory: None) -> None:
    """As if all planted errors had been added to an open study: they have the last rows, and the last positions of all raters."""
    study = open_study_to_audit(each=7, ratings_per_item=2, raters=6)
    sources = sorted(ItemSource.objects.filter(item__study=study), key=lambda one: one.perturbation != "none")
    rows = list(Item.objects.filter(study=study).order_by("pk"))
    ItemSource.objects.filter(item__study=study).delete()
    later = timezone.now()
    for item, source in zip(rows, sources, strict=True):
        source.pk, source.item = None, item
        source.save()
        if source.perturbation != "none":
            Item.objects.filter(pk=item.pk).update(created_at=later)
    for rater in study.raters.all():
        for place in sorted(rater.assignments.all(), key=lambda place: place.item_id):
            Assignment.objects.filter(pk=place.pk).update(position=1000 + place.item_id)
    assert [check.leaks for check in _order_of(study).values()] == [[], [], []]
    Item.objects.filter(study=study).update(created_at=later)
    assert _order_of(study)["order"].leaks and _order_of(study)["predictability"].leaks


def test_audit_accepts_studies_without_lineage_but_not_mixed_ones(study: Study) -> None:
    for item in study.items.all():
        del item.payload["lineage"]
        item.payload_sha256 = payload_digest(item.payload)
        item.save()
    assert not [
        check.name for check in stored_items.check_payloads(study, collect_sealed_values(study)) if check.has_failed
    ]
    item = study.items.first()
    assert item
    item.payload["lineage"] = True
    item.save()
    keys = stored_items.check_payloads(study, collect_sealed_values(study))[0]
    assert "no payload key 'lineage'" in str(keys.leaks)


def test_audit_check_with_too_few_items_is_reported_as_undecided_and_not_as_passed(
    laboratory: None, client: Client, capsys: Any
) -> None:
    study = open_study_to_audit(each=2, raters=1)
    call_command("audit_blinding", study.slug)
    said = capsys.readouterr().out
    assert "not decided: too few  form of twins: 4 twins" in said
    report = BlindingAudit.objects.get().report
    form = next(one for one in report["checks"] if one["name"] == "form of twins")
    assert form["passed"] is None and form["outcome"] == "not decided: too few" and "order" in report["not_decided"]
    client.force_login(User.objects.create_superuser("root"))
    shown = client.get(reverse("ratings:audit", args=[study.slug])).content.decode()
    assert shown.count("undecided: too few") == len(report["not_decided"])


# Its parts


@pytest.mark.thorough
def test_audit_accepts_ordinary_laboratory_words_such_as_obvious(study: Study) -> None:
    """ "No obvious precipitate" is what chemists write; nothing states that the twin is an obvious one."""
    item = study.items.first()
    assert item
    item.payload["observations"] = [{"type": "visual", "description": "No obvious precipitate", "value": ""}]
    item.payload_sha256 = payload_digest(item.payload)
    item.save()
    report = run_audit(study)
    assert not [one for one in report["leaks"] if "obvious" in one["what"]]


def test_sealed_values_are_collected_from_the_rows_of_a_study(study: Study) -> None:
    facts = collect_sealed_values(study)
    twin = Twin.objects.filter(pk__in=ItemSource.objects.filter(item__study=study).values("twin")).first()
    assert twin and twin.explanation.lower() in facts.values and str(twin.code) in facts.values
    assert set(facts.labels) >= {"offline", "obvious", "subtle", SLUG}
    assert [what for what, _ in facts.find_in(f"behold: {twin.explanation}")] == [
        "the explanation of the planted error"
    ]


def test_holms_correction_equals_the_one_computed_shown_to_admin() -> None:
    # sorted 0.01, 0.02, 0.04 times 3, 2, 1 = 0.03, 0.04, 0.04; each at least as large as the one before
    assert adjust_by_holm([0.04, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])


def test_auc_of_two_groups_equals_the_one_computed_shown_to_admin() -> None:
    # ones 3, 4 against noughts 1, 2, 3: of six pairs five are won and one is a tie: 5.5 / 6
    found = form_tests.compare_groups("size", [1, 2, 3], [3, 4])
    assert found.auc == pytest.approx(5.5 / 6) and found.low <= found.auc <= found.high


def test_separation_test_of_constant_numbers_has_auc_one_half_and_reports_nothing() -> None:
    assert form_tests.compare_groups("size", [1, 1], [1, 1]).auc == 0.5
    assert not form_tests.compare_pairs("size", [1.0] * 20, [1.0] * 20).is_telling


def test_separation_test_reports_pairs_that_all_differ_in_the_same_direction() -> None:
    # twenty twins, each 10 longer than originals of 1 to 20: half of the 400 pairs and more are won
    originals = [float(n) for n in range(1, 21)]
    found = form_tests.compare_pairs("characters", originals, [n + 10 for n in originals])
    assert found.auc > 0.8 and form_tests.correct_contrasts([found])[0].is_telling


def test_form_features_count_numbers_decimals_and_materials_as_raters_see_them() -> None:
    made = [{"ref": "A", "name": "Tube", "properties": [["Volume", "1.50 mL"], ["Mass", "-20 g"]], "condition": "on ice",
             "availability": "", "continues": ""}]  # fmt: skip
    counted = form_tests.compute_features({"after": made, "observations": [], "rejected": ""})
    assert counted["numbers"] == 2 and counted["numbers below nought"] == 0.5
    assert counted["decimals a number"] == 1.0  # 2 of 1.50, none of -20
    assert counted["round numbers"] == 1.0 and counted["materials"] == 1


# The command


def test_audit_command_prints_the_checks_and_stores_the_report(laboratory: None, capsys: Any) -> None:
    study = open_study_to_audit(each=1, raters=1)
    call_command("audit_blinding", study.slug)
    said = capsys.readouterr().out
    audit = BlindingAudit.objects.get()
    assert f"{study.slug}: 3 items" in said and "passed" in said and audit.sha256 in said
    assert audit.sha256 == audit_runner.compute_digest(json.loads(json.dumps(audit.report)))


def test_audit_command_fails_and_names_the_leak(laboratory: None, settings: Any, capsys: Any) -> None:
    study = open_study_to_audit(each=1, raters=1)
    add_leak(settings, "mark_header")
    with pytest.raises(CommandError, match="Blinding leaks in: round-one") as failed:
        call_command("audit_blinding", "--all")
    assert failed.value.returncode == 1
    assert "LEAK    headers" in (said := capsys.readouterr().out) and "X-Item-Kind" in said
    assert not BlindingAudit.objects.get().passed
    assert study.events.filter(kind="audited", data={"passed": False}).exists()


@pytest.mark.thorough
def test_audit_report_contains_no_code_of_an_item_or_assignment(study: Study, settings: Any) -> None:
    add_leak(settings, "mark_header")
    told = json.dumps(run_audit(study))
    assert not [
        assignment for assignment in Assignment.objects.filter(rater__study=study) if str(assignment.code) in told
    ]
    assert not [item for item in study.items.all() if str(item.code) in told]


@pytest.mark.parametrize("given", [[], ["round-one", "--all"], ["no-such-study"]])
def test_audit_command_requires_a_study(given: list[str]) -> None:
    with pytest.raises(CommandError) as failed:
        call_command("audit_blinding", *given)
    assert failed.value.returncode == 2


def test_audit_of_a_draft_is_refused(laboratory: None) -> None:
    document = {"name": "Draft", "kind": EVIDENCE, "sources": [{"cast": "offline", "count": 1}], "ratings_per_item": 1}
    study = lifecycle.create_study(lifecycle.parse_protocol({**document, "seed": 1}))
    with pytest.raises(CommandError, match="no items yet"):
        call_command("audit_blinding", study.slug)


# The page


def test_audit_page_runs_the_audit_and_shows_the_certificate(laboratory: None, client: Client) -> None:
    study = open_study_to_audit(each=1, raters=1)
    client.force_login(User.objects.create_superuser("root"))
    address = reverse("ratings:audit", args=[study.slug])
    assert "Not audited yet" in client.get(address).content.decode()
    client.post(address)
    workers.run_next_row(threading.Event())
    shown = client.get(address).content.decode()
    audit = BlindingAudit.objects.get()
    assert audit.by and audit.by.username == "root" and audit.sha256 in shown and ">Passed<" in shown
    assert reverse("ratings:certificate", args=[study.slug]) in shown


def test_audit_page_names_the_leak(laboratory: None, client: Client, settings: Any) -> None:
    study = open_study_to_audit(each=1, raters=1)
    add_leak(settings, "mark_header")
    client.force_login(User.objects.create_superuser("root"))
    address = reverse("ratings:audit", args=[study.slug])
    client.post(address)
    workers.run_next_row(threading.Event())
    shown = client.get(address).content.decode()
    assert "Leaks found" in shown and "X-Item-Kind" in shown


def test_audit_page_lets_an_analyst_read_the_certificate_but_not_start_an_audit(
    laboratory: None, client: Client
) -> None:
    study = open_study_to_audit(each=2)
    analyst = User.objects.create_user("ana")
    study.members.create(user=analyst, role="analyst")
    client.force_login(analyst)
    address = reverse("ratings:audit", args=[study.slug])
    assert client.get(address).status_code == 200 and client.post(address).status_code == 404
    assert not BlindingAudit.objects.exists()


def test_audit_reports_slower_answers_only_if_a_second_measurement_confirms_them(study: Study) -> None:
    """As if the computer had been busy whenever a planted error was shown: a second measurement does not confirm it."""
    times = visits.RequestTimes()
    for assignment in Assignment.objects.filter(rater__study=study):
        for planted, seconds in ((True, 0.5), (False, 0.1)):
            times.add_page(Page("item", "", 200, {}, "", seconds=seconds, asked_assignment=assignment.pk), planted)
    assert "planted errors take 400.0 ms longer" in times.find_slow_requests()["item"]
    found = visits.check_timing(study, times)
    assert found.is_passed and found.measured["measured_anew"]
