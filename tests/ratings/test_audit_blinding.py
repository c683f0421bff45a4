"""The blinding audit: passes on real studies, and fails on each of many leaks, naming it."""

import json
import os
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from tests_support import play_out

from ratings import auditing, pool, studies
from ratings.audit import orders, payloads, statistics, tells, timing, visits
from ratings.audit.findings import Check
from ratings.audit.pages import Page
from ratings.audit.sealed import sealed
from ratings.blinding import payload_digest
from ratings.models import (
    EVIDENCE,
    TRANSITION,
    Assignment,
    BlindingAudit,
    Draft,
    Item,
    ItemSource,
    Rater,
    Rating,
    Study,
)
from simulation import fixtures, queueing, workers
from simulation.models import Experiment, Transition, Twin

pytestmark = pytest.mark.django_db

SLUG = "zebrafish-genotyping"


@pytest.fixture(autouse=True)
def chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Codes and draws are the same each time: one audit in a hundred finds by chance alone what is not there."""
    drawn = random.Random(3).randbytes
    monkeypatch.setattr(os, "urandom", drawn)  # of uuid4
    monkeypatch.setattr(random, "_urandom", drawn)  # of secrets


@pytest.fixture(scope="module")
def laboratory(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """Zebrafish episodes with twins of both kinds, once for all tests; every reasoning says SECRET, as error prompts do."""
    with django_db_blocker.unblock(), transaction.atomic():
        fixtures.load_lab(django_settings.FIXTURES_DIR)
        experiment = Experiment.objects.get(slug=SLUG)
        for cast, replicates in (("offline", 1), ("offline-lapses", 3)):
            play_out(queueing.queue_episodes([experiment], cast, replicates, seed=5))
        play_out(
            queueing.queue_twins(Transition.objects.filter(episode__cast="offline"), ["obvious", "subtle"], seed=6)
        )
        for row in Transition.objects.all():
            row.step["outcome"]["reasoning"] = "SECRET: none of this is ever shown to anybody at all"
            row.save(update_fields=["step"])
        for twin in Twin.objects.filter(status="done"):
            twin.outcome["reasoning"] = f"SECRET: {twin.why}"
            twin.save(update_fields=["outcome"])
        yield
        transaction.set_rollback(True)


def opened(kind: str = TRANSITION, each: int = 3, **changes: Any) -> Study:
    sources = [("offline", "none", each), ("offline", "obvious", each), ("offline", "subtle", each)]
    if kind == EVIDENCE:
        sources = [("offline", "none", 1), ("offline-lapses", "none", 3)]
    document = {
        "name": "Round one",
        "kind": kind,
        "sources": [{"cast": c, "perturbation": p, "count": n} for c, p, n in sources],
        "ratings_per_item": 1,
        "seed": 8,
        **changes,
    }
    study = studies.create_study(studies.read_protocol(document))
    studies.open_study(study, changes.get("raters", 3))
    study.refresh_from_db()
    return study


def audited(study: Study) -> dict[str, Any]:
    return auditing.inspect(study)


def leaks(report: dict[str, Any], name: str) -> str:
    """What the check of that name says, which must be that it has not passed."""
    check = next(one for one in report["checks"] if one["name"] == name)
    assert not check["passed"] and not report["passed"]
    return "\n".join(f"{leak['where']}: {leak['what']}" for leak in check["leaks"])


def through(settings: Any, middleware: str) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"leaking.{middleware}"]


# Real studies pass


@pytest.mark.parametrize("kind", [TRANSITION, EVIDENCE])
def test_a_real_study_passes_and_everything_was_looked_at(laboratory: None, kind: str, settings: Any) -> None:
    settings.WRITES_PER_MINUTE = 2  # of people; what is rehearsed and undone is no writing
    study = opened(kind, each=6, ratings_per_item=2, raters=2) if kind == TRANSITION else opened(kind)
    audit = auditing.run(study)
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
def test_every_arm_of_the_screen_passes(laboratory: None) -> None:
    arms = {"layouts": ["plain", "aligned", "balance", "confirm"], "context": [True, False], "by": "item",
            "marks": ["off", "if_not_plausible", "always"]}  # fmt: skip
    report = audited(opened(each=4, display=arms))
    assert report["passed"], report["leaks"]


def test_items_that_nobody_has_claimed_yet_are_looked_at_as_well(laboratory: None) -> None:
    """With two raters, who comes for the next item is offered another one if pairs go with the origins of items."""
    study = opened(each=2, design="pool", raters=2)
    report = audited(study)
    shown = next(one for one in report["checks"] if one["name"] == "answers")["measured"]
    assert report["passed"], report["leaks"]
    assert shown["item fragment, 200"] == study.items.count() == 6


def test_an_audit_leaves_nothing_behind_but_its_report(laboratory: None) -> None:
    study = opened(each=1, raters=1)
    rater = study.raters.first()
    before = list(Rater.objects.order_by("pk").values()), list(Assignment.objects.order_by("pk").values())
    sources = list(ItemSource.objects.order_by("pk").values())
    auditing.run(study)
    assert rater and before == (
        list(Rater.objects.order_by("pk").values()),
        list(Assignment.objects.order_by("pk").values()),
    )
    assert sources == list(ItemSource.objects.order_by("pk").values())
    assert not Rating.objects.exists() and not Draft.objects.exists()
    assert study.events.filter(kind="audited", detail="blinding holds").count() == 1


def test_a_closed_study_is_audited_as_it_was_shown(laboratory: None) -> None:
    study = opened(each=1, raters=1)
    studies.close(study)
    audit = auditing.run(Study.objects.get(pk=study.pk))
    assert audit.passed and Study.objects.get(pk=study.pk).status == "closed"


# Leaks are found, and named


@pytest.fixture
def study(laboratory: None) -> Study:
    return opened()


@pytest.fixture
def small(laboratory: None) -> Study:
    """Six items of one rater: what is sent with every item shows here too, in half the time."""
    return opened(each=2, raters=1)


def of_payloads(study: Study) -> dict[str, Any]:
    """The report of the checks that read payloads and fetch nothing."""
    checks = payloads.checks(study, sealed(study))
    return {"passed": not any(check.failed for check in checks), "checks": [check.to_json() for check in checks]}


def of_order(study: Study) -> dict[str, Any]:
    """The same of the checks of places and rows."""
    checks = orders.checks(study)
    return {"passed": not any(check.failed for check in checks), "checks": [check.to_json() for check in checks]}


def test_a_key_too_many_in_a_payload_is_named(laboratory: None, monkeypatch: pytest.MonkeyPatch) -> None:
    blind = pool.blind_transition
    monkeypatch.setattr(pool, "blind_transition", lambda *given: {**blind(*given), "model": "gpt" if given[1:] else ""})
    assert "payload: payload key 'model'" in leaks(of_payloads(opened()), "payload keys")


@pytest.mark.thorough
def test_a_key_deep_in_a_payload_is_named(study: Study) -> None:
    item = study.items.first()
    assert item
    item.payload["before"][0]["barcode"] = "x"
    item.save()
    report = audited(study)
    assert "payload.before[]: payload key 'barcode'" in leaks(report, "payload keys")
    assert "not what its digest was made of" in leaks(report, "payload digest")


def test_the_words_of_a_secret_in_what_is_shown_are_named(study: Study) -> None:
    source = ItemSource.objects.filter(item__study=study, perturbation="subtle").select_related("item", "twin").first()
    assert source and source.twin
    Twin.objects.filter(pk=source.twin.pk).update(why="somebody doubled what was poured into the second tube")
    told = "It looks as if somebody doubled what was poured into it. SECRET: so it is"
    source.item.payload["observations"] = [{"type": "visual", "description": told, "value": ""}]
    source.item.save()
    report = of_payloads(study)
    said = leaks(report, "payload words")
    assert "six words of its own explanation: “somebody doubled what was poured into”" in said
    assert "the word “secret”" in said


@pytest.mark.thorough
def test_keys_in_another_order_for_twins_are_named(laboratory: None, monkeypatch: pytest.MonkeyPatch) -> None:
    blind = pool.blind_transition

    def reversed_for_twins(*given: Any) -> dict[str, Any]:
        payload = blind(*given)
        if given[1:]:
            for material in payload["after"]:
                material["properties"] = material["properties"][::-1]
        return payload

    monkeypatch.setattr(pool, "blind_transition", reversed_for_twins)
    assert "key order: " in leaks(audited(opened()), "payload order")


def _header(report: dict[str, Any]) -> None:
    assert "header X-Item-Kind differs between items" in leaks(report, "headers")
    assert "header X-Item-Kind: the error type: 'subtle'" in leaks(report, "sent words")
    assert "X-Item-Kind" in leaks(report, "another origin")


def _attribute(report: dict[str, Any]) -> None:
    assert 'data-layout="v2"' in leaks(report, "another origin")


def _row(report: dict[str, Any]) -> None:
    assert "the number of the item's row (pk) in '?item=#" in leaks(report, "database numbers")


SENT = {"marked_header": _header, "marked_class": _attribute, "row_in_address": _row}


def test_an_attribute_however_neutral_and_the_number_of_a_row_are_named(small: Study, settings: Any) -> None:
    """Of a header the command is told below."""
    for middleware in ("marked_class", "row_in_address"):
        through(settings, middleware)
    report = audited(small)
    _attribute(report)
    _row(report)


@pytest.mark.thorough
@pytest.mark.parametrize("middleware", SENT)
def test_each_of_them_is_named_where_it_is_alone(small: Study, settings: Any, middleware: str) -> None:
    through(settings, middleware)
    SENT[middleware](audited(small))


@pytest.mark.thorough
def test_twins_that_take_longer_are_named(laboratory: None, settings: Any) -> None:
    study = opened(each=5)
    through(settings, "slow_twins")
    assert "planted errors take" in leaks(audited(study), "timing")


@pytest.mark.thorough
def test_a_source_in_the_raters_own_download_is_named(study: Study, settings: Any) -> None:
    through(settings, "model_in_own_ratings")
    assert "own ratings, the body: the source: 'offline'" in leaks(audited(study), "sent words")


@pytest.mark.thorough
def test_a_header_that_lets_caches_keep_an_item_is_named(study: Study, settings: Any) -> None:
    through(settings, "kept_in_cache")
    assert "header ETag" in leaks(audited(study), "headers")


@pytest.mark.thorough
def test_another_answer_to_strangers_for_items_that_exist_is_named(study: Study, settings: Any) -> None:
    through(settings, "told_to_strangers")
    assert "told apart from an item that does not exist (404)" in leaks(audited(study), "closed doors")


def test_items_ordered_by_error_type_are_named(laboratory: None) -> None:
    study = opened(ratings_per_item=2, raters=6, each=5)
    places = Assignment.objects.filter(rater__study=study).select_related("item__source").order_by("rater", "position")
    for rater in study.raters.all():
        own = sorted((p for p in places if p.rater_id == rater.pk), key=lambda p: p.item.source.perturbation)
        for at, place in enumerate(own):
            Assignment.objects.filter(pk=place.pk).update(position=1000 + at)
    assert "position and planted errors go together: AUC " in leaks(of_order(study), "order")


@pytest.mark.thorough
def test_items_frozen_in_the_order_of_their_sources_are_named(
    laboratory: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the batch had not been shuffled: payloads sorted so that rows with planted errors come last."""
    study = opened(each=5)
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
    assert "the item's row and planted errors go together" in leaks(audited(study), "order")


@pytest.mark.thorough
def test_twins_that_write_their_figures_otherwise_are_named(laboratory: None) -> None:
    study = opened(each=7)
    for source in ItemSource.objects.filter(item__study=study, twin__isnull=False).select_related("item"):
        for material in source.item.payload["after"]:
            material["properties"] = [[label, f"{value}, approx. 1.0000"] for label, value in material["properties"]]
        for seen in source.item.payload["observations"]:
            seen["value"] += ", approx. 1.0000"
        source.item.save()
    assert "decimals a number: AUC 1.00" in leaks(audited(study), "form of twins")


MARKS = {
    "telling_cookie": "item: 'Set-Cookie: view=",
    "marked_draft": "draft: 'X-Cache: ",
    "marked_head": "item, HEAD: 'X-Cache: ",
    "marked_options": "item, OPTIONS: 'X-Cache: ",
    "marked_last_page": "last page: '<a ",
    "marked_redirect": "plain answer: 'Location: /rate/(code)/?v=",
}


@pytest.mark.parametrize(
    "marked",
    [
        pytest.param(["marked_last_page"], id="last page"),
        pytest.param([name for name in MARKS if name != "marked_last_page"], id="all others"),
    ],
)
def test_a_mark_is_named_wherever_it_is_sent(small: Study, settings: Any, marked: list[str]) -> None:
    """Each by its own middleware, each on another request: one audit names them all. On the last page they meet."""
    for middleware in marked:
        through(settings, middleware)
    said = leaks(audited(small), "another origin")
    assert [name for name in marked if MARKS[name] not in said] == []


@pytest.mark.thorough
@pytest.mark.parametrize(("middleware", "told"), MARKS.items())
def test_a_mark_is_named_where_it_is_the_only_one(small: Study, settings: Any, middleware: str, told: str) -> None:
    through(settings, middleware)
    assert told in leaks(audited(small), "another origin")


@pytest.mark.thorough
def test_answers_to_planted_errors_that_take_longer_are_named(laboratory: None, settings: Any) -> None:
    through(settings, "slow_answers")
    said = leaks(audited(opened(each=4, raters=1)), "timing")
    assert "timing of answer: planted errors take" in said or "timing of plain answer: planted errors take" in said


def _twins_rewritten(study: Study, rewrite: Callable[[Item], None]) -> str:
    """What the check of forms says when every twin of the study is given another form."""
    sources = list(ItemSource.objects.filter(item__study=study).select_related("item", "twin", "transition"))
    for source in sources:
        if source.twin:
            rewrite(source.item)
    check = next(one for one in tells.checks_of(sources) if one.name == "form of twins")
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
def test_twins_of_another_form_are_named(dealt: Study, rewrite: Callable[[Item], None], told: str) -> None:
    assert f"{told}: AUC" in _twins_rewritten(dealt, rewrite)


def test_the_form_of_real_twins_tells_nothing(dealt: Study) -> None:
    assert _twins_rewritten(dealt, lambda item: None) == ""


@pytest.fixture
def dealt(laboratory: None) -> Study:
    """Fourteen twins with their context. Nothing of it is fetched."""
    return opened(each=7, display={"layouts": ["plain"], "context": [True], "by": "item", "marks": ["off"]})


# What is no leak


def _order_of(study: Study) -> dict[str, Check]:
    return {check.name: check for check in orders.checks(study)}


def test_items_added_later_come_later_and_that_is_no_leak(laboratory: None) -> None:
    """As if all planted errors had been added to an open study: they have the last rows and places of all raters."""
    study = opened(each=7, ratings_per_item=2, raters=6)
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


def test_a_study_of_before_lineage_was_told_is_no_leak_and_one_where_some_tell_it_is(study: Study) -> None:
    for item in study.items.all():
        del item.payload["lineage"]
        item.payload_sha256 = payload_digest(item.payload)
        item.save()
    assert not [check.name for check in payloads.checks(study, sealed(study)) if check.failed]
    item = study.items.first()
    assert item
    item.payload["lineage"] = True
    item.save()
    keys = payloads.checks(study, sealed(study))[0]
    assert "no payload key 'lineage'" in str(keys.leaks)


def _moving(study: Study, times: int) -> Callable[[Study], tuple[Any, ...]]:
    """The state of a study in which somebody is given another place so many times, each time just after it was read."""
    true, left = visits.state, [times]

    def state(study: Study) -> tuple[Any, ...]:
        found = true(study)
        if left[0]:
            left[0] -= 1
            place = Assignment.objects.filter(rater__study=study).order_by("-position")[0]
            Assignment.objects.filter(pk=place.pk).update(position=place.position + 1)
        return found

    return state


def test_what_is_found_while_a_study_changes_is_looked_at_again(
    laboratory: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = opened(each=1, raters=1)
    monkeypatch.setattr(visits, "state", _moving(study, 1))
    report = audited(study)
    shown = next(one for one in report["checks"] if one["name"] == "answers")["measured"]
    assert report["passed"] and shown["item fragment, 200"] == 3


def test_a_study_that_goes_on_changing_has_to_be_audited_again(
    laboratory: None, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    study = opened(each=1, raters=1)
    monkeypatch.setattr(visits, "state", _moving(study, 1000))
    with pytest.raises(CommandError, match="changed while it was being audited"):
        call_command("audit_blinding", study.slug)
    assert not BlindingAudit.objects.exists()


def test_what_too_few_items_cannot_tell_is_not_called_passed(laboratory: None, client: Client, capsys: Any) -> None:
    study = opened(each=2, raters=1)
    call_command("audit_blinding", study.slug)
    said = capsys.readouterr().out
    assert "not decided: too few  form of twins: 4 twins" in said
    report = BlindingAudit.objects.get().report
    form = next(one for one in report["checks"] if one["name"] == "form of twins")
    assert form["passed"] is None and form["outcome"] == "not decided: too few" and "order" in report["not_decided"]
    client.force_login(User.objects.create_superuser("root"))
    shown = client.get(reverse("ratings:audit", args=[study.slug])).content.decode()
    assert shown.count("not decided: too few") == len(report["not_decided"]) and "best paused" in shown


def test_browsers_share_what_is_loaded_once(settings: Any) -> None:
    assert visits.Browser().client.handler is visits.Browser().client.handler
    before = visits.Browser().client.handler
    through(settings, "marked_header")
    assert visits.Browser().client.handler is not before


# Its parts


@pytest.mark.thorough
def test_a_word_of_the_bench_is_no_leak(study: Study) -> None:
    """ "No obvious precipitate" is what chemists write; that the twin is an obvious one stands nowhere."""
    item = study.items.first()
    assert item
    item.payload["observations"] = [{"type": "visual", "description": "No obvious precipitate", "value": ""}]
    item.payload_sha256 = payload_digest(item.payload)
    item.save()
    report = audited(study)
    assert not [one for one in report["leaks"] if "obvious" in one["what"]]


def test_the_sealed_facts_of_a_study_are_gathered_from_its_rows(study: Study) -> None:
    facts = sealed(study)
    twin = Twin.objects.filter(pk__in=ItemSource.objects.filter(item__study=study).values("twin")).first()
    assert twin and twin.why.lower() in facts.values and str(twin.code) in facts.values
    assert set(facts.labels) >= {"offline", "obvious", "subtle", SLUG}
    assert [what for what, _ in facts.told_in(f"behold: {twin.why}")] == ["the explanation of the planted error"]


def test_holms_correction_by_hand() -> None:
    # sorted 0.01, 0.02, 0.04 times 3, 2, 1 = 0.03, 0.04, 0.04; each at least as large as the one before
    assert statistics.holm([0.04, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])


def test_an_auc_by_hand() -> None:
    # ones 3, 4 beside noughts 1, 2, 3: of six pairs five are won and one is a tie: 5.5 / 6
    found = statistics.unpaired("size", [1, 2, 3], [3, 4])
    assert found.auc == pytest.approx(5.5 / 6) and found.low <= found.auc <= found.high


def test_numbers_that_never_vary_tell_nothing() -> None:
    assert statistics.unpaired("size", [1, 1], [1, 1]).auc == 0.5
    assert not statistics.paired("size", [1.0] * 20, [1.0] * 20).tells


def test_pairs_that_all_differ_the_same_way_and_are_told_apart_fail() -> None:
    # twenty twins, each 10 longer than originals of 1 to 20: half of the 400 pairs and more are won
    originals = [float(n) for n in range(1, 21)]
    found = statistics.paired("characters", originals, [n + 10 for n in originals])
    assert found.auc > 0.8 and statistics.corrected([found])[0].tells


def test_a_feature_is_a_number_of_what_raters_read() -> None:
    made = [{"ref": "A", "name": "Tube", "properties": [["Volume", "1.50 mL"], ["Mass", "-20 g"]], "condition": "on ice",
             "availability": "", "continues": ""}]  # fmt: skip
    counted = tells.features({"after": made, "observations": [], "rejected": ""})
    assert counted["numbers"] == 2 and counted["numbers below nought"] == 0.5
    assert counted["decimals a number"] == 1.0  # 2 of 1.50, none of -20
    assert counted["round numbers"] == 1.0 and counted["materials"] == 1


# The command


def test_the_command_says_what_holds_and_keeps_the_report(laboratory: None, capsys: Any) -> None:
    study = opened(each=1, raters=1)
    call_command("audit_blinding", study.slug)
    said = capsys.readouterr().out
    audit = BlindingAudit.objects.get()
    assert f"{study.slug}: 3 items" in said and "blinding holds" in said and audit.sha256 in said
    assert audit.sha256 == auditing.digest(json.loads(json.dumps(audit.report)))


def test_the_command_fails_and_names_the_leak(laboratory: None, settings: Any, capsys: Any) -> None:
    study = opened(each=1, raters=1)
    through(settings, "marked_header")
    with pytest.raises(CommandError, match="Blinding leaks in: round-one") as failed:
        call_command("audit_blinding", "--all")
    assert failed.value.returncode == 1
    assert "LEAK    headers" in (said := capsys.readouterr().out) and "X-Item-Kind" in said
    assert not BlindingAudit.objects.get().passed
    assert study.events.filter(kind="audited", detail="blinding LEAKS").exists()


@pytest.mark.thorough
def test_a_report_never_points_at_an_item(study: Study, settings: Any) -> None:
    through(settings, "marked_header")
    told = json.dumps(audited(study))
    assert not [place for place in Assignment.objects.filter(rater__study=study) if str(place.code) in told]
    assert not [item for item in study.items.all() if str(item.code) in told]


@pytest.mark.parametrize("given", [[], ["round-one", "--all"], ["no-such-study"]])
def test_the_command_is_told_which_study(given: list[str]) -> None:
    with pytest.raises(CommandError) as failed:
        call_command("audit_blinding", *given)
    assert failed.value.returncode == 2


def test_a_draft_has_nothing_to_audit(laboratory: None) -> None:
    document = {"name": "Draft", "kind": EVIDENCE, "sources": [{"cast": "offline", "count": 1}], "ratings_per_item": 1}
    study = studies.create_study(studies.read_protocol({**document, "seed": 1}))
    with pytest.raises(CommandError, match="no items yet"):
        call_command("audit_blinding", study.slug)


# The page


def test_the_page_runs_the_audit_and_shows_the_certificate(laboratory: None, client: Client) -> None:
    study = opened(each=1, raters=1)
    client.force_login(User.objects.create_superuser("root"))
    address = reverse("ratings:audit", args=[study.slug])
    assert "Not audited yet" in client.get(address).content.decode()
    client.post(address)
    workers.play_next(threading.Event())
    shown = client.get(address).content.decode()
    audit = BlindingAudit.objects.get()
    assert audit.by and audit.by.username == "root" and audit.sha256 in shown and "blinding holds" in shown
    assert reverse("ratings:certificate", args=[study.slug]) in shown


def test_the_page_names_the_leak(laboratory: None, client: Client, settings: Any) -> None:
    study = opened(each=1, raters=1)
    through(settings, "marked_header")
    client.force_login(User.objects.create_superuser("root"))
    address = reverse("ratings:audit", args=[study.slug])
    client.post(address)
    workers.play_next(threading.Event())
    shown = client.get(address).content.decode()
    assert "What leaks" in shown and "X-Item-Kind" in shown


def test_an_analyst_reads_the_certificate_and_cannot_make_one(laboratory: None, client: Client) -> None:
    study = opened(each=2)
    analyst = User.objects.create_user("ana")
    study.members.create(user=analyst, role="analyst")
    client.force_login(analyst)
    address = reverse("ratings:audit", args=[study.slug])
    assert client.get(address).status_code == 200 and client.post(address).status_code == 404
    assert not BlindingAudit.objects.exists()


def test_a_slow_moment_is_no_leak_unless_it_is_found_again(study: Study) -> None:
    """As if the computer had been busy whenever a planted error was shown: measured anew, nothing of it is left."""
    times = timing.Times()
    for place in Assignment.objects.filter(rater__study=study):
        for planted, seconds in ((True, 0.5), (False, 0.1)):
            times.add(Page("item", "", 200, {}, "", seconds=seconds, asked=place.pk), planted)
    assert "planted errors take 400.0 ms longer" in times.told()["item"]
    found = timing.check(study, times)
    assert found.passed and found.measured["measured_anew"]
