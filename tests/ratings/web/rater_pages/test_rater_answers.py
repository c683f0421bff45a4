"""Answers sent from the rating page: what is stored, what is rejected, and which page follows."""

import re
import uuid
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from ratings.blinding import allow_list
from ratings.models import EVIDENCE, Assignment, InitialRating, Rater, Rating, RatingEvent, UnsavedAnswer
from ratings.rating import Answer, submit
from ratings.studies import lifecycle
from tests.support.rater_forms import (
    HTMX,
    WITH_AND_WITHOUT_HTMX,
    build_answer,
    create_rater_with_marks,
    get_next_item_url,
    get_rating_page,
    get_rating_url,
)
from tests.support.rating_room import create_open_study, get_assignment


def hidden(html: str, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', html)
    assert found
    return found[1]


# ---------------------------------------------------------------- answering


def test_answer_is_saved_and_a_plain_browser_redirected_to_the_next_item(at_work: Client, rater: Rater) -> None:
    saved = at_work.post(get_rating_url(get_assignment(rater)), build_answer(verdict="no", confidence="2"))

    rating = Rating.objects.get()
    assert (rating.verdict, rating.confidence) == (False, 2)
    assert (saved.status_code, saved.headers["Location"]) == (303, get_rating_url(get_assignment(rater, 2)))


def test_htmx_receives_the_next_item_in_the_response(at_work: Client, rater: Rater) -> None:
    saved = at_work.post(get_rating_url(get_assignment(rater)), build_answer(), headers=HTMX)

    card = saved.content.decode()
    assert (saved.status_code, saved.headers["HX-Push-Url"]) == (200, get_rating_url(get_assignment(rater, 2)))
    assert f'hx-post="{get_rating_url(get_assignment(rater, 2))}"' in card and "1 saved, last at" in card
    assert get_assignment(rater, 2).opened_at is not None


def test_htmx_loads_the_last_page_after_the_last_item(at_work: Client, rater: Rater) -> None:
    for assignment in rater.assignments.all():
        last = at_work.post(get_rating_url(assignment), build_answer(), headers=HTMX)

    assert last.headers["HX-Redirect"] == get_next_item_url(rater)


@WITH_AND_WITHOUT_HTMX
@pytest.mark.parametrize(
    ("given", "asked_for", "kept"),
    [
        ({"verdict": "no", "confidence": ""}, "Choose how confident you are", 'value="no" data-key="n" checked'),
        ({"verdict": "", "confidence": "5"}, "Choose Plausible or Not plausible.", 'aria-label="5, very high" checked'),
        ({"verdict": "yes", "confidence": "6"}, "Choose how confident you are", 'value="yes" data-key="p" checked'),
        ({"verdict": "maybe", "note": "unsure"}, "Choose Plausible or Not plausible.", ">unsure</textarea>"),
    ],
)
def test_incomplete_rating_is_shown_again_with_its_choices(
    at_work: Client, rater: Rater, headers: dict[str, str], given: dict[str, str], asked_for: str, kept: str
) -> None:
    sent = build_answer(**given)

    back = at_work.post(get_rating_url(get_assignment(rater)), sent, headers=headers)

    page = back.content.decode()
    assert back.status_code == 422
    assert f">{asked_for}" in page  # the message itself; the same text is also in data-missing
    assert kept in page
    assert sent["submission_id"] in page
    assert not Rating.objects.exists()


@pytest.mark.parametrize("name", ["verdict", "confidence", "note", "revision", "stage", "submission_id"])
def test_rating_form_with_a_repeated_field_is_rejected_by_name(at_work: Client, rater: Rater, name: str) -> None:
    get_rating_page(at_work, get_assignment(rater))
    sent = build_answer()
    response = at_work.post(get_rating_url(get_assignment(rater)), {**sent, name: [sent.get(name, ""), "no"]})
    assert (
        response.status_code == 422
        and f"The form contains more than one value for: {name}." in response.content.decode()
    )
    assert not Rating.objects.exists()


@WITH_AND_WITHOUT_HTMX
def test_rating_form_sent_twice_continues_normally(at_work: Client, rater: Rater, headers: dict[str, str]) -> None:
    form = build_answer()

    once = at_work.post(get_rating_url(get_assignment(rater)), form, headers=headers)
    again = at_work.post(get_rating_url(get_assignment(rater)), form, headers=headers)

    where = "HX-Push-Url" if headers else "Location"
    assert (again.status_code, again.headers[where]) == (once.status_code, once.headers[where])
    assert Rating.objects.count() == 1


def test_cannot_judge_needs_neither_verdict_nor_confidence(at_work: Client, rater: Rater) -> None:
    form = {"cannot_judge": "1", "verdict": "yes", "note": "virology", "submission_id": str(uuid.uuid4())}

    assert at_work.post(get_rating_url(get_assignment(rater)), form).status_code == 303
    rating = Rating.objects.get()
    assert (rating.verdict, rating.confidence, rating.cannot_judge, rating.note) == (None, None, True, "virology")


@pytest.mark.parametrize("note", ["x" * 2001, "a\0b"])
def test_invalid_note_is_rejected_with_the_reason(at_work: Client, rater: Rater, note: str) -> None:
    back = at_work.post(get_rating_url(get_assignment(rater)), build_answer(note=note))

    assert back.status_code == 422
    assert 'id="unsaved" role="alert">' in back.content.decode()  # not hidden
    assert not Rating.objects.exists()


def test_note_keeps_line_breaks_and_shows_invisible_characters(at_work: Client, rater: Rater) -> None:
    at_work.post(get_rating_url(get_assignment(rater)), build_answer(note="pH 7\r\nnot\u202e 4\x1b"))

    assert Rating.objects.get().note == "pH 7\nnot\ufffd 4\ufffd"


def test_rating_form_of_another_item_is_rejected_with_a_new_id(at_work: Client, rater: Rater) -> None:
    form = build_answer()
    at_work.post(get_rating_url(get_assignment(rater)), form)

    replayed = at_work.post(get_rating_url(get_assignment(rater, 2)), form)

    assert replayed.status_code == 422
    assert "already sent for another item" in replayed.content.decode()
    assert form["submission_id"] not in replayed.content.decode()
    assert Rating.objects.count() == 1


def test_rating_form_without_a_csrf_token_saves_nothing(rater: Rater) -> None:
    strict = Client(enforce_csrf_checks=True)
    assert rater.user is not None
    strict.force_login(rater.user)

    assert strict.post(get_rating_url(get_assignment(rater)), build_answer()).status_code == 403
    assert not Rating.objects.exists()


@WITH_AND_WITHOUT_HTMX
def test_answer_to_a_paused_study_is_stored_as_an_unsaved_answer(
    at_work: Client, rater: Rater, headers: dict[str, str]
) -> None:
    lifecycle.pause_study(rater.study)

    sent = at_work.post(get_rating_url(get_assignment(rater)), build_answer(note="wait"), headers=headers)

    assert sent.headers["HX-Redirect" if headers else "Location"] == get_next_item_url(rater)
    assert not Rating.objects.exists()
    lifecycle.resume_study(rater.study)
    assert ">wait</textarea>" in get_rating_page(at_work, get_assignment(rater))


# ---------------------------------------------------------------- two tabs, corrections


@WITH_AND_WITHOUT_HTMX
def test_conflicting_answer_from_a_second_tab_asks_which_should_count(
    at_work: Client, rater: Rater, headers: dict[str, str]
) -> None:
    at_work.post(get_rating_url(get_assignment(rater)), build_answer(verdict="yes", confidence="4"))

    second = at_work.post(
        get_rating_url(get_assignment(rater)), build_answer(verdict="no", confidence="1", note="b"), headers=headers
    )

    page = second.content.decode()
    assert second.status_code == 409
    assert "Which answer should count?" in page and "Plausible</strong>, confidence 4" in page
    assert "Not plausible</strong>, confidence 1" in page
    assert Rating.objects.get().verdict is True  # until the rater decides

    again = {name: hidden(page, name) for name in ("verdict", "confidence", "note", "submission_id", "revision")}
    assert at_work.post(get_rating_url(get_assignment(rater)), again).status_code == 303
    rating = Rating.objects.get()
    assert (rating.verdict, rating.confidence, rating.note, rating.revision) == (False, 1, "b", 2)
    assert RatingEvent.objects.count() == 2


def test_submission_id_reused_for_another_answer_is_rejected(at_work: Client, rater: Rater) -> None:
    form = build_answer()
    at_work.post(get_rating_url(get_assignment(rater)), form)

    other = at_work.post(get_rating_url(get_assignment(rater)), {**form, "verdict": "no"})

    assert other.status_code == 422
    assert "Which answer should count?" in other.content.decode()
    assert form["submission_id"] not in other.content.decode()


def test_last_answer_is_shown_filled_in_and_can_be_changed(at_work: Client, rater: Rater) -> None:
    at_work.post(get_rating_url(get_assignment(rater)), build_answer(note="first"))

    page = get_rating_page(at_work, get_assignment(rater))

    assert 'value="yes" data-key="p" checked' in page and 'value="4" data-key="4"' in page and ">first<" in page
    assert hidden(page, "revision") == "1" and "You are changing your answer" in page
    changed = build_answer(verdict="no", revision="1", submission_id=hidden(page, "submission_id"))
    assert at_work.post(get_rating_url(get_assignment(rater)), changed).headers["Location"] == get_rating_url(
        get_assignment(rater, 2)
    )
    assert [event.verdict for event in RatingEvent.objects.all()] == [True, False]


def test_rating_page_links_to_the_previous_answer(at_work: Client, rater: Rater) -> None:
    assert 'id="previous"' not in get_rating_page(at_work, get_assignment(rater))
    at_work.post(get_rating_url(get_assignment(rater)), build_answer())

    assert f'id="previous" href="{get_rating_url(get_assignment(rater))}"' in get_rating_page(
        at_work, get_assignment(rater, 2)
    )


def test_answer_before_the_last_one_cannot_be_changed(at_work: Client, rater: Rater) -> None:
    for position in (1, 2):
        at_work.post(get_rating_url(get_assignment(rater, position)), build_answer())

    page = get_rating_page(at_work, get_assignment(rater, 1))
    sent = at_work.post(get_rating_url(get_assignment(rater, 1)), build_answer(verdict="no", revision="1"))

    assert "You have already answered this item: plausible, confidence 4" in page and "<form class" not in page
    assert sent.status_code == 409 and "was not saved" in sent.content.decode()
    assert not Rating.objects.filter(verdict=False).exists()


def test_any_answer_can_be_changed_after_all_are_rated_until_finish(at_work: Client, rater: Rater) -> None:
    for assignment in rater.assignments.all():
        at_work.post(get_rating_url(assignment), build_answer())

    changed = at_work.post(get_rating_url(get_assignment(rater)), build_answer(verdict="no", revision="1"))
    assert (changed.status_code, changed.headers["Location"]) == (303, get_next_item_url(rater))
    Rater.objects.filter(pk=rater.pk).update(finished_at=timezone.now())

    assert "You have finished" in get_rating_page(at_work, get_assignment(rater))


# ---------------------------------------------------------------- unsaved answers


def test_unsaved_answer_is_restored(at_work: Client, rater: Rater) -> None:
    form = build_answer(verdict="no", confidence="", note="half")

    assert at_work.post(get_rating_url(get_assignment(rater)) + "draft/", form).status_code == 204

    page = get_rating_page(at_work, get_assignment(rater))
    assert 'value="no" data-key="n" checked' in page and ">half</textarea>" in page
    assert not Rating.objects.exists()


def test_unsaved_answer_is_never_rejected(at_work: Client, rater: Rater) -> None:
    nonsense = {"verdict": "perhaps", "confidence": "9", "marks": "no/such", "note": "x" * 5000 + "\0"}

    assert at_work.post(get_rating_url(get_assignment(rater)) + "draft/", nonsense).status_code == 204
    kept = UnsavedAnswer.objects.get()
    assert (kept.verdict, kept.confidence, kept.marks, len(kept.note)) == (None, None, [], 2000)


def test_unsaved_answer_accepts_only_post(at_work: Client, rater: Rater) -> None:
    assert at_work.get(get_rating_url(get_assignment(rater)) + "draft/").status_code in (404, 405)


def test_unsaved_answer_after_a_late_answer_is_ignored(at_work: Client, rater: Rater) -> None:
    at_work.post(get_rating_url(get_assignment(rater)), build_answer())

    at_work.post(
        get_rating_url(get_assignment(rater)) + "draft/", build_answer(verdict="no")
    )  # sent before the answer, arrived after it

    assert not UnsavedAnswer.objects.exists()
    assert submit.answer_of(Rating.objects.get()) == Answer(True, 4)


# ---------------------------------------------------------------- the arms


def first_key(assignment: Assignment) -> str:
    return allow_list.list_mark_keys(assignment.item.payload)[0]


@pytest.mark.parametrize(
    ("marks", "verdict", "kept"),
    [("always", "yes", True), ("if_not_plausible", "no", True), ("if_not_plausible", "yes", False)],
)
def test_marked_rows_are_saved_if_the_arm_asks_for_them(
    client: Client, db: None, marks: str, verdict: str, kept: bool
) -> None:
    rater = create_rater_with_marks(marks)
    assert rater.user is not None
    client.force_login(rater.user)
    key = first_key(get_assignment(rater))

    client.post(get_rating_url(get_assignment(rater)), build_answer(verdict=verdict, marks=[key, key]))

    assert Rating.objects.get().marks == ([key] if kept else [])


def test_mark_on_an_unknown_row_is_rejected(client: Client, db: None) -> None:
    rater = create_rater_with_marks("always")
    assert rater.user is not None
    client.force_login(rater.user)

    back = client.post(get_rating_url(get_assignment(rater)), build_answer(marks=["Z:no such row"]))

    assert back.status_code == 422 and "not part of this item" in back.content.decode()


def test_rows_cannot_be_marked_if_marking_is_off(at_work: Client, rater: Rater) -> None:
    assert (
        at_work.post(
            get_rating_url(get_assignment(rater)), build_answer(marks=[first_key(get_assignment(rater))])
        ).status_code
        == 422
    )
    assert 'name="marks"' not in get_rating_page(at_work, get_assignment(rater))


@pytest.fixture
def asked_twice(client: Client, db: None) -> Rater:
    rater = create_open_study(items=3, layout="confirm").raters.get(label="R01")
    assert rater.user is not None
    client.force_login(rater.user)
    return rater


@WITH_AND_WITHOUT_HTMX
def test_confirm_arm_shows_the_item_again_and_stores_both_answers(
    client: Client, asked_twice: Rater, headers: dict[str, str]
) -> None:
    assignment = get_assignment(asked_twice)
    before = get_rating_page(client, assignment)
    assert hidden(before, "stage") == "first"

    sent = client.post(
        get_rating_url(assignment), build_answer(verdict="yes", stage="first", note="hm"), headers=headers
    )
    after = sent.content.decode() if headers else get_rating_page(client, assignment)

    assert (InitialRating.objects.get().verdict, Rating.objects.exists()) == (True, False)
    assert hidden(after, "stage") == "final" and "Your first answer is saved: <strong>plausible, confidence 4" in after
    assert 'data-key="p" checked' not in after and ">hm</textarea>" in after  # no preselected verdict; the note stays
    assert hidden(after, "submission_id") != hidden(before, "submission_id")

    client.post(get_rating_url(assignment), build_answer(verdict="no", confidence="5", stage="final"), headers=headers)
    assert (InitialRating.objects.get().verdict, Rating.objects.get().verdict) == (True, False)
    assert Rating.objects.get().layout_shown == "confirm"


def test_confirm_arm_first_form_sent_twice_is_not_the_final_answer(client: Client, asked_twice: Rater) -> None:
    form = build_answer(stage="first")
    for _ in range(2):
        client.post(get_rating_url(get_assignment(asked_twice)), form)

    assert InitialRating.objects.count() == 1 and not Rating.objects.exists()


def test_confirm_arm_accepts_no_final_answer_before_the_balance_sheet(client: Client, asked_twice: Rater) -> None:
    client.post(get_rating_url(get_assignment(asked_twice)), build_answer(verdict="yes", stage="final"))

    assert InitialRating.objects.get().verdict and not Rating.objects.exists()


def test_arm_that_asks_for_one_answer_stores_no_initial_rating(at_work: Client, rater: Rater) -> None:
    at_work.post(get_rating_url(get_assignment(rater)), build_answer(stage="first"))

    assert Rating.objects.exists() and not InitialRating.objects.exists()


def test_confirm_arm_asks_no_second_time_after_cannot_judge_as_first_answer(client: Client, asked_twice: Rater) -> None:
    client.post(
        get_rating_url(get_assignment(asked_twice)),
        {"cannot_judge": "1", "stage": "first", "submission_id": str(uuid.uuid4())},
    )

    assert Rating.objects.get().cannot_judge and not InitialRating.objects.exists()


def test_confirm_arm_asks_only_once_if_the_lineage_is_unknown(client: Client, asked_twice: Rater) -> None:
    item = get_assignment(asked_twice).item
    item.payload["lineage"] = False
    item.save()

    assert hidden(get_rating_page(client, get_assignment(asked_twice)), "stage") == "final"
    client.post(get_rating_url(get_assignment(asked_twice)), build_answer(stage="final"))
    assert Rating.objects.get().layout_shown == "plain"


def test_evidence_is_rated_once_in_every_arm(client: Client, db: None) -> None:
    rater = create_open_study(EVIDENCE, items=2, layout="confirm").raters.get(label="R01")
    assert rater.user is not None
    client.force_login(rater.user)

    page = get_rating_page(client, get_assignment(rater))

    assert hidden(page, "stage") == "final"
    assert 'data-key="s"' in page and 'data-key="p"' not in page


# ---------------------------------------------------------------- data stored with the answer


def test_rating_stores_time_input_device_window_and_versions(at_work: Client, rater: Rater) -> None:
    get_rating_page(at_work, get_assignment(rater))
    Assignment.objects.filter(pk=get_assignment(rater).pk).update(opened_at=timezone.now() - timedelta(seconds=60))

    at_work.post(
        get_rating_url(get_assignment(rater)),
        build_answer(
            active_seconds="41.5", first_verdict_seconds="12.0", changes="2", hand="keys", viewport="1440x900",
            interface="2",
        ),
    )  # fmt: skip

    saved = Rating.objects.get()
    assert 60 <= saved.seconds < 90
    assert (saved.active_seconds, saved.first_verdict_seconds, saved.changes) == (41.5, 12.0, 2)
    assert (saved.hand, saved.viewport, saved.interface_version) == ("keys", "1440x900", "2")
    assert (saved.guide_version, saved.layout_shown) == (1, "aligned")


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ({"active_seconds": "1e9", "first_verdict_seconds": "1e9"}, (10.0, 10.0)),  # no longer than the item was open
        ({"active_seconds": "5", "first_verdict_seconds": "8"}, (5.0, 5.0)),
        ({"active_seconds": "-3", "first_verdict_seconds": "nan"}, (0.0, None)),
        ({"active_seconds": "soon", "first_verdict_seconds": "inf"}, (None, None)),
        ({}, (None, None)),  # without JavaScript
    ],
)
def test_times_claimed_by_the_browser_are_limited(
    at_work: Client, rater: Rater, sent: dict[str, str], kept: tuple[float | None, float | None]
) -> None:
    Assignment.objects.filter(pk=get_assignment(rater).pk).update(opened_at=timezone.now() - timedelta(seconds=10))

    at_work.post(
        get_rating_url(get_assignment(rater)),
        build_answer(**sent, hand="foot", viewport="huge", interface="<b>", changes="many"),
    )

    saved = Rating.objects.get()
    assert (saved.active_seconds, saved.first_verdict_seconds) == (
        pytest.approx(kept[0], abs=1) if kept[0] is not None else None,
        pytest.approx(kept[1], abs=1) if kept[1] is not None else None,
    )
    assert (saved.hand, saved.viewport, saved.interface_version, saved.changes) == ("", "", "", 0)


@pytest.mark.parametrize(
    ("offered", "sent", "kept"),
    [
        (True, {"calculations": "3"}, 3),
        (True, {"calculations": "0"}, 0),  # opened, and nothing calculated
        (True, {}, None),  # not opened
        (True, {"calculations": "many"}, None),
        (True, {"calculations": "1e9"}, 999),
        (True, {"calculations": "-2"}, 0),
        (False, {"calculations": "3"}, None),  # the page has no calculator
        (None, {"calculations": "3"}, None),  # the document of an older study
    ],
)
def test_calculations_are_stored_with_the_answer_if_the_study_offers_the_calculator(
    client: Client, db: None, offered: bool | None, sent: dict[str, str], kept: int | None
) -> None:
    display = {} if offered is None else {"display": {"calculator": offered}}
    rater = create_open_study(items=3, **display).raters.get(label="R01")
    assert rater.user is not None
    client.force_login(rater.user)
    page = get_rating_page(client, get_assignment(rater))
    assert ('id="calculator"' in page) is ('data-opens="calculator"' in page) is bool(offered)
    client.post(get_rating_url(get_assignment(rater)), build_answer(**sent))
    assert Rating.objects.get().calculations == kept
    client.post(get_rating_url(get_assignment(rater)), build_answer(**sent, revision="1", confidence="1"))
    assert (Rating.objects.get().revision, Rating.objects.get().calculations) == (2, kept)


def test_fragment_of_the_next_item_contains_nothing_of_the_calculator(client: Client, db: None) -> None:
    rater = create_open_study(items=3, display={"calculator": True}).raters.get(label="R01")
    assert rater.user is not None
    client.force_login(rater.user)
    get_rating_page(client, get_assignment(rater))
    answered = client.post(get_rating_url(get_assignment(rater)), build_answer(), headers={"HX-Request": "true"})
    assert answered.status_code == 200 and "rating-card" in answered.content.decode()
    assert "calc" not in answered.content.decode()


def test_reopening_an_item_does_not_restart_its_time(at_work: Client, rater: Rater) -> None:
    get_rating_page(at_work, get_assignment(rater))
    shown_at = get_assignment(rater).opened_at
    get_rating_page(at_work, get_assignment(rater))

    assert get_assignment(rater).opened_at == shown_at is not None
