"""Practice: items that are right and wrong as they say, answered before they are explained, counted nowhere."""

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
from simulation.checker import lines
from simulation.lab import catalogue
from tests.support.rating_room import open_study

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


def written(kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((settings.FIXTURES_DIR / "practice" / practice.FILES[kind]).read_text())
    return found


def verdict(step: dict[str, Any]) -> str:
    """What the checker says of one step."""
    named = {"input_materials": step["inputs"], "action": step["action"], "outcome": step["outcome"]}
    actions = catalogue.read_directory(settings.FIXTURES_DIR / "actions")[0]
    (line,) = lines.read(io.BytesIO(json.dumps({"id": "1", "experiment": "x", **named}).encode()), actions)
    assert line.report is not None, line.error
    return line.report.verdict


# ---------------------------------------------------------------- the items


@KINDS
def test_there_are_three_items_of_each_kind_and_a_spare_one_and_both_answers_occur(kind: str) -> None:
    items = practice.items(kind)
    assert [item.spare for item in items] == [False, False, False, True]
    assert {item.answer for item in items[:3]} == {True, False}
    assert len({item.key for item in items}) == 4


@pytest.mark.parametrize("entry", written(TRANSITION), ids=lambda entry: entry["key"])
def test_the_checker_finds_the_error_where_there_is_one_and_nothing_where_there_is_none(entry: dict[str, Any]) -> None:
    assert verdict(entry["step"]) == ("ok" if entry["answer"] else "error")
    for place, value in RIGHT.get(entry["key"], []):
        *way, last = place
        inside: Any = entry["step"]["outcome"]
        for part in way:
            inside = inside[part]
        inside[last] = value
    assert verdict(entry["step"]) == "ok"  # what is named as wrong is all that is wrong


@pytest.mark.parametrize("entry", written(EVIDENCE), ids=lambda entry: entry["key"])
def test_no_step_of_a_practice_record_is_wrong_in_itself(entry: dict[str, Any]) -> None:
    assert "error" not in [verdict(step) for step in entry["steps"]]


@KINDS
def test_wrong_items_name_the_rows_that_are_wrong_and_right_ones_name_none(kind: str) -> None:
    for item in practice.items(kind):
        assert set(item.target) <= set(allow_list.mark_keys(dict(item.payload)))
        assert bool(item.target) is not item.answer
    assert {item.key: item.target for item in practice.items(TRANSITION)}["blocking-buffer"] == ("A:Volume", "seen/2")


@KINDS
def test_every_item_is_explained_and_says_what_to_look_for(kind: str) -> None:
    for item in practice.items(kind):
        assert len(item.explanation) >= 3
        assert "What to look for" in " ".join(item.explanation)


@KINDS
def test_items_show_no_barcodes_and_nothing_of_the_answer(kind: str) -> None:
    for item in practice.items(kind):
        shown = json.dumps([item.payload, item.context], ensure_ascii=False)
        assert not re.search("MAT-|SECRET|obvious|subtle|planted|wrong", shown)
        assert not re.search("right|wrong|obvious|subtle|true|false|yes|no-", item.key)


# ---------------------------------------------------------------- which of them, and how they are counted


@pytest.fixture
def seat(db: None) -> Rater:
    return newcomer(open_study(items=3, begun=False, practice=3))


def newcomer(study: Study) -> Rater:
    """The first seat, its guide read."""
    seat = study.raters.order_by("number").first()
    assert seat is not None
    seat.guide_seen = 1
    seat.save()
    return seat


def answer_all(seat: Rater, right: int) -> None:
    """The study's items in order, the first so many rightly."""
    for number, item in enumerate(practice.asked(seat)):
        practice.answer(seat, item, item.answer if number < right else not item.answer, 3)


@pytest.mark.parametrize(("wanted", "asked"), [(0, []), (1, ["blocking-buffer"]), (2, ["atp", "blocking-buffer"])])
@pytest.mark.django_db
def test_a_study_asks_for_as_many_as_it_says_the_hardest_in_any_case(wanted: int, asked: list[str]) -> None:
    seat = newcomer(open_study(items=3, begun=False, practice=wanted))
    assert [item.key for item in practice.asked(seat)] == asked
    assert practice.pending(seat) is bool(wanted)


@pytest.mark.parametrize(("right", "more"), [(3, 0), (2, 0), (1, 1), (0, 1)])
def test_who_has_fewer_than_two_of_three_right_is_given_one_more(seat: Rater, right: int, more: int) -> None:
    answer_all(seat, right)
    assert len(practice.asked(seat)) == 3 + more
    assert practice.result(seat) == (right, 3)
    assert practice.passed(seat) is not bool(more)


def test_only_the_first_answer_to_an_item_counts(seat: Rater) -> None:
    item = practice.asked(seat)[0]
    practice.answer(seat, item, not item.answer, 5)
    practice.answer(seat, item, item.answer, 1)
    assert practice.result(seat) == (0, 1)


# ---------------------------------------------------------------- the pages


@pytest.fixture
def here(seat: Rater) -> str:
    return f"/rate/study/{seat.code}/practice/"


@pytest.fixture
def at_work(client: Client, seat: Rater) -> Client:
    assert seat.user is not None
    client.force_login(seat.user)
    return client


def sent(item: practice.PracticeItem, right: bool = True, **more: str) -> dict[str, str]:
    return {"item": item.key, "verdict": "yes" if item.answer is right else "no", "confidence": "4", **more}


def test_the_explanation_comes_after_the_own_answer_and_never_before(at_work: Client, seat: Rater, here: str) -> None:
    item = practice.asked(seat)[0]
    question = at_work.get(here).content.decode()
    assert item.lesson not in question and item.explanation[0] not in question
    early = at_work.get(f"{here}?item={item.key}")
    assert (early.status_code, early["Location"]) == (302, here)
    answered = at_work.post(here, sent(item), follow=True)
    assert answered.redirect_chain == [(f"{here}?item={item.key}", 303)]
    assert item.lesson in answered.content.decode()


def test_half_an_answer_is_refused_and_says_what_is_missing(at_work: Client, seat: Rater, here: str) -> None:
    item = practice.asked(seat)[0]
    for half in ({"verdict": ""}, {"confidence": "6"}, {"verdict": "", "confidence": "", "cannot_judge": "1"}):
        response = at_work.post(here, {**sent(item), **half})
        assert response.status_code == 422
        assert "Choose" in response.content.decode()
    assert not PracticeAnswer.objects.exists()


def test_a_wrong_answer_with_high_confidence_gets_a_word_about_confidence(
    at_work: Client, seat: Rater, here: str
) -> None:
    first, second, _ = practice.asked(seat)
    assert "About your confidence" in at_work.post(here, sent(first, right=False), follow=True).content.decode()
    assert "About your confidence" not in at_work.post(here, sent(second), follow=True).content.decode()


def test_practice_of_three_leads_to_the_items_and_is_counted_nowhere(at_work: Client, seat: Rater, here: str) -> None:
    for item in practice.asked(seat):
        assert at_work.get(here).context["exercise"] == item
        at_work.post(here, sent(item))
    assert "3 of 3 right" in at_work.get(here).content.decode()
    begun = at_work.post(f"{here}done/", follow=True)
    seat.refresh_from_db()
    assert begun.redirect_chain[-1][0].startswith("/rate/") and seat.started_at is not None
    assert seat.practised_at is not None and not practice.pending(seat)
    assert not Rating.objects.exists()


def test_practice_cannot_be_ended_with_an_item_left(at_work: Client, seat: Rater, here: str) -> None:
    answer_all(seat, right=1)  # so the spare one is left
    at_work.post(f"{here}done/")
    seat.refresh_from_db()
    assert seat.started_at is None
    practice.answer(seat, practice.asked(seat)[-1], True, 3)  # wrong again: on all the same, and told so
    page = at_work.get(here).content.decode()
    assert "1 of 4 right" in page and "These were hard ones" in page
    at_work.post(f"{here}done/")
    seat.refresh_from_db()
    assert seat.started_at is not None


def test_explanations_can_be_read_again_later(at_work: Client, seat: Rater, here: str) -> None:
    answer_all(seat, right=3)
    practice.begin(seat)
    for item in practice.asked(seat):
        assert item.lesson in at_work.get(f"{here}?item={item.key}").content.decode()


def test_sending_another_answer_later_shows_the_first(at_work: Client, seat: Rater, here: str) -> None:
    item = practice.asked(seat)[0]
    at_work.post(here, sent(item, right=False))
    again = at_work.post(here, sent(item), follow=True)
    assert "Not this time" in again.content.decode()
    assert PracticeAnswer.objects.get().right is False


def test_an_item_that_is_not_asked_for_does_not_exist(at_work: Client, here: str) -> None:
    spare = practice.items(TRANSITION)[-1]
    assert at_work.post(here, sent(spare)).status_code == 404
    assert at_work.get(f"{here}?item={spare.key}").status_code == 404
    assert at_work.get(f"{here}?item=%00").status_code == 404


def test_nobody_elses_practice_is_to_be_seen(client: Client, seat: Rater, here: str) -> None:
    other = seat.study.raters.exclude(pk=seat.pk).get()
    assert other.user is not None
    client.force_login(other.user)
    assert client.get(here).status_code == client.post(here, sent(practice.asked(seat)[0])).status_code == 404
    assert client.post(f"{here}done/").status_code == 404


@pytest.mark.django_db
@pytest.mark.parametrize("layout", ["plain", "aligned", "balance", "confirm"])
@pytest.mark.parametrize("kind", [TRANSITION, EVIDENCE])
def test_practice_is_shown_in_the_seats_own_arm(client: Client, kind: str, layout: str) -> None:
    display = {"layouts": [layout], "context": [True], "marks": ["always"], "by": "rater"}
    seat = newcomer(open_study(kind, items=3, begun=False, practice=3, display=display))
    assert seat.user is not None
    client.force_login(seat.user)
    response = client.get(f"/rate/study/{seat.code}/practice/")
    assert response.context["marks"] == "always"
    if kind == TRANSITION:
        assert response.context["layout_shown"] == layout
        assert practice.items(kind)[0].context["goal"] in response.content.decode()


@pytest.mark.parametrize("times", [1, 2])
def test_rating_begins_once(seat: Rater, times: int) -> None:
    practice.begin(seat)
    first = seat.started_at
    for _ in range(times - 1):
        practice.begin(Rater.objects.get(pk=seat.pk))
    seat.refresh_from_db()
    assert seat.started_at == first == seat.practised_at
