"""Tests of practice: its items are right or wrong as declared, explained after the answer, and never counted as ratings."""

import io
import json
import re
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from ratings.blinding import allow_list
from ratings.models import EVIDENCE, TRANSITION, PracticeAnswer, Rater, Rating, Study
from ratings.raters import practice
from simulation.checker import checks
from tests.support.data_files import CATALOGUE
from tests.support.rating_room import create_open_study

KINDS = pytest.mark.parametrize("kind", [TRANSITION, EVIDENCE])
RIGHT = {
    # 2.4e5 cells that double once in 20 to 24 h are 4.8e5 to 5.5e5 after a day.
    "hek-cells": [(("new_materials", 0, "properties", "cell_count"), "5.1e5 cells")],
    # 12.0 mL - 6 x 0.5 mL = 9.0 mL, and the same at the graduation.
    "blocking-buffer": [
        (("new_materials", 0, "properties", "volume"), "9.0 mL"),
        (("new_observations", 1, "value"), "9.0 mL"),
    ],
    # 10 mg/mL x 20 µL = 200 µg; 200 µg / 10.0 mL = 20 µg/mL.
    "puromycin": [(("new_materials", 1, "properties", "puromycin_concentration"), "20 µg/mL")],
}


def load_practice_entries(kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((settings.FIXTURES_DIR / "practice" / practice.FILES[kind]).read_text())
    return found


def get_checker_verdict(step: dict[str, Any]) -> str:
    """Return the checker's verdict on one step."""
    named = {"input_materials": step["inputs"], "action": step["action"], "outcome": step["outcome"]}
    actions = CATALOGUE
    (line,) = checks.check_lines(io.BytesIO(json.dumps({"id": "1", "experiment": "x", **named}).encode()), actions)
    assert line.report is not None, line.error
    return line.report.verdict


# ---------------------------------------------------------------- the items


@KINDS
def test_practice_has_three_items_with_both_answers_and_a_spare_one_for_each_kind_of_study(kind: str) -> None:
    items = practice.load_items(kind)
    assert [item.spare for item in items] == [False, False, False, True]
    assert {item.answer for item in items[:3]} == {True, False}
    assert len({item.key for item in items}) == 4


@pytest.mark.parametrize("entry", load_practice_entries(TRANSITION), ids=lambda entry: entry["key"])
def test_practice_transition_errors_are_found_by_the_checker(entry: dict[str, Any]) -> None:
    assert get_checker_verdict(entry["step"]) == ("ok" if entry["answer"] else "error")
    for place, value in RIGHT.get(entry["key"], []):
        *way, last = place
        inside: Any = entry["step"]["outcome"]
        for part in way:
            inside = inside[part]
        inside[last] = value
    assert get_checker_verdict(entry["step"]) == "ok"  # the declared errors are the only ones


@pytest.mark.parametrize("entry", load_practice_entries(EVIDENCE), ids=lambda entry: entry["key"])
def test_practice_evidence_records_contain_no_implausible_step(entry: dict[str, Any]) -> None:
    assert "error" not in [get_checker_verdict(step) for step in entry["steps"]]


@KINDS
def test_practice_items_name_their_wrong_rows(kind: str) -> None:
    for item in practice.load_items(kind):
        assert set(item.target) <= set(allow_list.list_mark_keys(dict(item.payload)))
        assert bool(item.target) is not item.answer
    assert {item.key: item.target for item in practice.load_items(TRANSITION)}["blocking-buffer"] == (
        "A:Volume",
        "seen/2",
    )


@KINDS
def test_practice_items_have_an_explanation_with_advice(kind: str) -> None:
    for item in practice.load_items(kind):
        assert len(item.explanation) >= 3
        assert "What to look for" in " ".join(item.explanation)


@KINDS
def test_practice_items_show_no_barcodes_and_do_not_reveal_the_answer(kind: str) -> None:
    for item in practice.load_items(kind):
        shown = json.dumps([item.payload, item.context], ensure_ascii=False)
        assert not re.search("MAT-|SECRET|obvious|subtle|planted|wrong", shown)
        assert not re.search("right|wrong|obvious|subtle|true|false|yes|no-", item.key)


# ---------------------------------------------------------------- choice of items and results


@pytest.fixture
def rater(db: None) -> Rater:
    return prepare_rater(create_open_study(items=3, begun=False, practice=3))


def prepare_rater(study: Study) -> Rater:
    """Return the study's first rater after they have read the guide."""
    rater = study.raters.order_by("number").first()
    assert rater is not None
    rater.guide_seen = 1
    rater.save()
    return rater


def answer_all(rater: Rater, right: int) -> None:
    """Answer the practice items in order, the first `right` ones rightly."""
    for number, item in enumerate(practice.list_items(rater)):
        practice.store_answer(rater, item, item.answer if number < right else not item.answer, 3)


@pytest.mark.parametrize(("wanted", "asked"), [(0, []), (1, ["blocking-buffer"]), (2, ["atp", "blocking-buffer"])])
@pytest.mark.django_db
def test_practice_has_the_configured_number_of_items(wanted: int, asked: list[str]) -> None:
    rater = prepare_rater(create_open_study(items=3, begun=False, practice=wanted))
    assert [item.key for item in practice.list_items(rater)] == asked
    assert practice.is_pending(rater) is bool(wanted)


@pytest.mark.parametrize(("right", "more"), [(3, 0), (2, 0), (1, 1), (0, 1)])
def test_practice_adds_an_item_if_fewer_than_two_of_three_are_right(rater: Rater, right: int, more: int) -> None:
    answer_all(rater, right)
    assert len(practice.list_items(rater)) == 3 + more
    assert practice.get_result(rater) == (right, 3)
    assert practice.get_result(rater).is_passed is not bool(more)


def test_practice_result_counts_only_the_first_answer_to_an_item(rater: Rater) -> None:
    item = practice.list_items(rater)[0]
    practice.store_answer(rater, item, not item.answer, 5)
    practice.store_answer(rater, item, item.answer, 1)
    assert practice.get_result(rater) == (0, 1)


# ---------------------------------------------------------------- the pages


@pytest.fixture
def practice_url(rater: Rater) -> str:
    return f"/rate/study/{rater.code}/practice/"


@pytest.fixture
def rater_client(client: Client, rater: Rater) -> Client:
    assert rater.user is not None
    client.force_login(rater.user)
    return client


def build_answer(item: practice.PracticeItem, right: bool = True, **more: str) -> dict[str, str]:
    return {"item": item.key, "verdict": "yes" if item.answer is right else "no", "confidence": "4", **more}


def test_practice_page_shows_the_explanation_only_after_the_answer(
    rater_client: Client, rater: Rater, practice_url: str
) -> None:
    item = practice.list_items(rater)[0]
    question = rater_client.get(practice_url).content.decode()
    assert item.lesson not in question and item.explanation[0] not in question
    early = rater_client.get(f"{practice_url}?item={item.key}")
    assert (early.status_code, early["Location"]) == (302, practice_url)
    answered = rater_client.post(practice_url, build_answer(item), follow=True)
    assert answered.redirect_chain == [(f"{practice_url}?item={item.key}", 303)]
    assert item.lesson in answered.content.decode()


def test_practice_page_rejects_an_incomplete_answer_with_a_reason(
    rater_client: Client, rater: Rater, practice_url: str
) -> None:
    item = practice.list_items(rater)[0]
    for half in ({"verdict": ""}, {"confidence": "6"}, {"verdict": "", "confidence": "", "cannot_judge": "1"}):
        response = rater_client.post(practice_url, {**build_answer(item), **half})
        assert response.status_code == 422
        assert "Choose" in response.content.decode()
    assert not PracticeAnswer.objects.exists()


def test_practice_page_comments_on_high_confidence_in_a_wrong_answer(
    rater_client: Client, rater: Rater, practice_url: str
) -> None:
    first, second, _ = practice.list_items(rater)
    assert (
        "About your confidence"
        in rater_client.post(practice_url, build_answer(first, right=False), follow=True).content.decode()
    )
    assert (
        "About your confidence"
        not in rater_client.post(practice_url, build_answer(second), follow=True).content.decode()
    )


def test_practice_leads_to_the_first_item_and_creates_no_rating(
    rater_client: Client, rater: Rater, practice_url: str
) -> None:
    for item in practice.list_items(rater):
        assert rater_client.get(practice_url).context["exercise"] == item
        rater_client.post(practice_url, build_answer(item))
    assert "3 of 3 right" in rater_client.get(practice_url).content.decode()
    begun = rater_client.post(f"{practice_url}done/", follow=True)
    rater.refresh_from_db()
    assert begun.redirect_chain[-1][0].startswith("/rate/") and rater.started_at is not None
    assert rater.practised_at is not None and not practice.is_pending(rater)
    assert not Rating.objects.exists()


def test_practice_cannot_be_finished_before_its_last_item(
    rater_client: Client, rater: Rater, practice_url: str
) -> None:
    answer_all(rater, right=1)  # so the spare item is added
    rater_client.post(f"{practice_url}done/")
    rater.refresh_from_db()
    assert rater.started_at is None
    practice.store_answer(
        rater, practice.list_items(rater)[-1], True, 3
    )  # also wrong: the rater may continue, and sees a note
    page = rater_client.get(practice_url).content.decode()
    assert "1 of 4 right" in page and "These were hard ones" in page
    rater_client.post(f"{practice_url}done/")
    rater.refresh_from_db()
    assert rater.started_at is not None


def test_practice_explanations_can_be_read_again(rater_client: Client, rater: Rater, practice_url: str) -> None:
    answer_all(rater, right=3)
    practice.finish_practice(rater)
    for item in practice.list_items(rater):
        assert item.lesson in rater_client.get(f"{practice_url}?item={item.key}").content.decode()


def test_practice_page_keeps_the_first_answer(rater_client: Client, rater: Rater, practice_url: str) -> None:
    item = practice.list_items(rater)[0]
    rater_client.post(practice_url, build_answer(item, right=False))
    again = rater_client.post(practice_url, build_answer(item), follow=True)
    assert "Not this time" in again.content.decode()
    assert PracticeAnswer.objects.get().right is False


def test_practice_page_returns_404_for_an_item_that_is_not_required(rater_client: Client, practice_url: str) -> None:
    spare = practice.load_items(TRANSITION)[-1]
    assert rater_client.post(practice_url, build_answer(spare)).status_code == 404
    assert rater_client.get(f"{practice_url}?item={spare.key}").status_code == 404
    assert rater_client.get(f"{practice_url}?item=%00").status_code == 404


def test_practice_page_of_another_rater_returns_404(client: Client, rater: Rater, practice_url: str) -> None:
    other = rater.study.raters.exclude(pk=rater.pk).get()
    assert other.user is not None
    client.force_login(other.user)
    assert (
        client.get(practice_url).status_code
        == client.post(practice_url, build_answer(practice.list_items(rater)[0])).status_code
        == 404
    )
    assert client.post(f"{practice_url}done/").status_code == 404


@pytest.mark.django_db
@pytest.mark.parametrize("layout", ["plain", "aligned", "balance", "confirm"])
@pytest.mark.parametrize("kind", [TRANSITION, EVIDENCE])
def test_practice_page_uses_the_display_arm_of_the_rater(client: Client, kind: str, layout: str) -> None:
    display = {"layouts": [layout], "context": [True], "marks": ["always"], "by": "rater"}
    rater = prepare_rater(create_open_study(kind, items=3, begun=False, practice=3, display=display))
    assert rater.user is not None
    client.force_login(rater.user)
    response = client.get(f"/rate/study/{rater.code}/practice/")
    assert response.context["marks"] == "always"
    if kind == TRANSITION:
        assert response.context["layout_shown"] == layout
        assert practice.load_items(kind)[0].context["goal"] in response.content.decode()


@pytest.mark.parametrize("times", [1, 2])
def test_practice_completed_again_does_not_change_the_start_of_rating(rater: Rater, times: int) -> None:
    practice.finish_practice(rater)
    first = rater.started_at
    for _ in range(times - 1):
        practice.finish_practice(Rater.objects.get(pk=rater.pk))
    rater.refresh_from_db()
    assert rater.started_at == first == rater.practised_at
