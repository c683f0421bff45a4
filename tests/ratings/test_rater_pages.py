"""The rater's pages as a browser without scripts and as htmx get them."""

import gzip
import re
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client, RequestFactory
from django.views.defaults import server_error
from rating_room import link, open_study, transition_payloads, used_up

from ratings import access, blinding, studies
from ratings.models import EVIDENCE, Assignment, Rater, Rating, SignInLink, Study

HTMX = {"HX-Request": "true"}
EITHER_WAY = pytest.mark.parametrize("headers", [{}, HTMX], ids=["plain", "htmx"])


@pytest.fixture
def study(db: None) -> Study:
    return open_study(items=3)


@pytest.fixture
def rater(study: Study) -> Rater:
    rater = study.raters.order_by("label").first()
    assert rater is not None
    studies.start(rater)
    return rater


@pytest.fixture
def at_work(client: Client, rater: Rater) -> Client:
    client.force_login(rater.user)
    return client


def first(rater: Rater) -> Assignment:
    return rater.assignments.get(position=1)


def address(assignment: Assignment) -> str:
    return f"/rate/{assignment.code}/"


def answer(**changes: str) -> dict[str, str]:
    return {"verdict": "yes", "confidence": "4", "submission_id": str(uuid.uuid4()), **changes}


def without_token(html: str) -> str:
    return re.sub(r'value="[A-Za-z0-9]{64}"|"X-CSRFToken": "[A-Za-z0-9]{64}"', "", html)


# ---------------------------------------------------------------- links


def test_a_personal_link_signs_the_browser_in_and_leads_to_the_guide(client: Client, study: Study) -> None:
    opened = client.get(link(study.raters.get(label="R01")), follow=True)

    assert [where for where, _ in opened.redirect_chain] == ["/rate/", "/rate/guide/"]
    assert opened.context["user"].username == "study-1-rater-1"
    assert "Start rating" in opened.content.decode()


def test_reading_the_guide_leads_to_the_first_item(client: Client, study: Study) -> None:
    rater = study.raters.get(label="R01")
    client.get(link(rater))

    started = client.post("/rate/guide/", follow=True)

    assert started.redirect_chain == [("/rate/", 303), (address(first(rater)), 302)]


@pytest.mark.parametrize("path", ["/r/", "/sign-in/"])
def test_a_forged_link_is_a_plain_404(client: Client, db: None, path: str) -> None:
    forged = client.get(f"{path}{'x' * 43}/")

    assert forged.status_code == 404
    assert without_token(forged.content.decode()) == without_token(client.get("/nowhere/").content.decode())


def test_an_admin_link_is_no_rater_link(client: Client, db: None) -> None:
    token = access.make_link(User.objects.create(username="admin", is_staff=True), "admin")

    assert client.get(f"/r/{token}/").status_code == 404


def test_an_admin_link_leads_staff_to_the_studies(client: Client, db: None) -> None:
    token = access.make_link(User.objects.create(username="admin", is_staff=True), "admin")

    opened = client.get(f"/sign-in/{token}/", follow=True)

    assert [where for where, _ in opened.redirect_chain] == ["/", "/studies/"]


def test_a_link_that_rating_began_with_opens_in_no_other_browser(client: Client, study: Study) -> None:
    rater = study.raters.get(label="R01")
    personal = link(rater)
    client.get(personal)
    client.post("/rate/guide/")

    elsewhere = Client().get(personal)

    assert elsewhere.status_code == 410
    assert "Ask the person who invited you for a new link" in elsewhere.content.decode()
    assert client.get(personal).headers["Location"] == "/rate/"  # the browser signed in goes straight on


def test_an_expired_link_says_to_ask_for_a_new_one(client: Client, study: Study) -> None:
    personal = link(study.raters.get(label="R01"))
    SignInLink.objects.update(expires_at="2020-01-01T00:00:00Z")

    expired = client.get(personal)

    assert expired.status_code == 410
    assert "expired" in expired.content.decode()


def test_a_newer_link_takes_the_place_of_an_older_one(client: Client, study: Study) -> None:
    rater = study.raters.get(label="R01")
    older, newer = link(rater), link(rater)

    assert client.get(older).status_code == 410
    assert client.get(newer).status_code == 302


# ---------------------------------------------------------------- who may see what


def test_strangers_are_sent_to_sign_in_and_htmx_is_told_so(client: Client, rater: Rater) -> None:
    place = address(first(rater))

    assert client.get(place).headers["Location"] == f"/login/?next={place}"
    assert client.post(place, answer(), headers=HTMX).status_code == 401
    assert not Rating.objects.exists()


def test_another_raters_item_does_not_exist(at_work: Client, study: Study) -> None:
    foreign = first(study.raters.get(label="R02"))

    for asked in (at_work.get, at_work.post):
        theirs, nobodys = asked(address(foreign)), asked(f"/rate/{uuid.uuid4()}/")
        assert theirs.status_code == nobodys.status_code == 404
        assert theirs.content == nobodys.content


def test_staff_without_a_seat_get_404(client: Client, study: Study) -> None:
    client.force_login(User.objects.create(username="admin", is_staff=True))

    for path in ("/rate/", "/rate/guide/", "/rate/done/", address(first(study.raters.get(label="R01")))):
        assert client.get(path).status_code == 404


def test_the_start_page_sends_each_to_their_work(client: Client, rater: Rater) -> None:
    assert client.get("/").headers["Location"] == "/login/"
    client.force_login(rater.user)
    assert client.get("/").headers["Location"] == "/rate/"
    client.force_login(User.objects.create(username="nobody"))
    assert "no study for you" in client.get("/").content.decode()


# ---------------------------------------------------------------- rating


@EITHER_WAY
def test_an_answer_is_saved_before_the_next_item_shows(at_work: Client, rater: Rater, headers: dict[str, str]) -> None:
    saved = at_work.post(address(first(rater)), answer(verdict="no", confidence="2"), headers=headers)

    rating = Rating.objects.get()
    assert (rating.verdict, rating.confidence) == (False, 2)
    assert saved.status_code == 303
    assert saved.headers["Location"] == address(rater.assignments.get(position=2))


@EITHER_WAY
@pytest.mark.parametrize(
    ("given", "asked_for", "kept"),
    [
        ({"verdict": "no", "confidence": ""}, "Choose how confident you are", 'value="no" data-key="n" checked'),
        ({"verdict": "", "confidence": "5"}, "Choose Plausible or Not plausible.", 'aria-label="5, very high" checked'),
        ({"verdict": "yes", "confidence": "6"}, "Choose how confident you are", 'value="yes" data-key="p" checked'),
    ],
)
def test_half_a_rating_comes_back_with_what_was_chosen(
    at_work: Client, rater: Rater, headers: dict[str, str], given: dict[str, str], asked_for: str, kept: str
) -> None:
    sent = answer(**given)

    back = at_work.post(address(first(rater)), sent, headers=headers)

    page = back.content.decode()
    assert back.status_code == 422
    assert f">{asked_for}" in page  # the message itself; the same words stand ready in data-missing
    assert kept in page and page.count(" checked") == 1 + page.count('id="keys-on" checked')
    assert sent["submission_id"] in page
    assert not Rating.objects.exists()


@EITHER_WAY
def test_the_same_form_sent_twice_just_goes_on(at_work: Client, rater: Rater, headers: dict[str, str]) -> None:
    form = answer()

    once = at_work.post(address(first(rater)), form, headers=headers)
    again = at_work.post(address(first(rater)), form, headers=headers)

    assert (again.status_code, again.headers["Location"]) == (once.status_code, once.headers["Location"])
    assert Rating.objects.count() == 1


@EITHER_WAY
def test_a_second_answer_is_told_which_rating_stands(at_work: Client, rater: Rater, headers: dict[str, str]) -> None:
    at_work.post(address(first(rater)), answer(verdict="yes", confidence="4"))

    second = at_work.post(address(first(rater)), answer(verdict="no", confidence="1"), headers=headers)

    assert second.status_code == 409
    assert "You rated this item plausible, confidence 4; that stands" in second.content.decode()
    assert Rating.objects.get().verdict is True


def test_opening_a_rated_item_tells_the_rating(at_work: Client, rater: Rater) -> None:
    at_work.post(address(first(rater)), answer())

    page = at_work.get(address(first(rater)))

    assert page.status_code == 200
    assert "You rated this item plausible, confidence 4; that stands" in page.content.decode()


def test_a_form_of_another_item_is_refused_and_gets_a_new_id(at_work: Client, rater: Rater) -> None:
    form = answer()
    at_work.post(address(first(rater)), form)

    replayed = at_work.post(address(rater.assignments.get(position=2)), form)

    assert replayed.status_code == 422
    assert "sent before for another item" in replayed.content.decode()
    assert form["submission_id"] not in replayed.content.decode()
    assert Rating.objects.count() == 1


def test_after_the_last_item_comes_the_last_page(at_work: Client, rater: Rater) -> None:
    for assignment in rater.assignments.all():
        last = at_work.post(address(assignment), answer(), follow=True)

    assert last.redirect_chain == [("/rate/done/", 303)]
    assert "3 of 3 items are rated and saved" in last.content.decode()


def test_the_last_page_is_not_for_those_with_items_left(at_work: Client, rater: Rater) -> None:
    assert at_work.get("/rate/done/").headers["Location"] == "/rate/"


@EITHER_WAY
def test_a_closed_study_takes_no_rating_and_says_so(at_work: Client, rater: Rater, headers: dict[str, str]) -> None:
    at_work.post(address(first(rater)), answer())
    studies.close(rater.study)

    sent = at_work.post(address(rater.assignments.get(position=2)), answer(), headers=headers)

    assert (sent.status_code, sent.headers["Location"]) == (303, "/rate/")
    assert "This study is closed" in at_work.get("/rate/").content.decode()
    assert at_work.get("/rate/", headers=HTMX).headers["HX-Redirect"] == "/rate/"
    assert Rating.objects.count() == 1


# ---------------------------------------------------------------- what the pages hold


def test_htmx_gets_the_card_and_the_progress_alone(at_work: Client, rater: Rater) -> None:
    page = at_work.get(address(first(rater))).content.decode()
    fragment = at_work.get(address(first(rater)), headers=HTMX).content.decode()

    assert "<html" in page and "<html" not in fragment
    for html in (page, fragment):
        assert html.count('id="rating-card"') == html.count('id="progress"') == html.count('id="saved"') == 1
    assert "hx-swap-oob" in fragment and "hx-swap-oob" not in page


def test_the_next_item_costs_less_than_ten_kilobytes(at_work: Client, rater: Rater) -> None:
    fragment = at_work.get(address(first(rater)), headers=HTMX).content

    assert len(gzip.compress(fragment)) < 10_000


def test_nothing_is_chosen_beforehand(at_work: Client, rater: Rater) -> None:
    page = at_work.get(address(first(rater)), headers=HTMX).content.decode()

    assert " checked" not in page


@pytest.mark.parametrize("path", ["/rate/", "/rate/guide/", "/rate/done/", "item"])
def test_no_cache_keeps_a_raters_page(at_work: Client, rater: Rater, path: str) -> None:
    response = at_work.get(address(first(rater)) if path == "item" else path)

    assert response.headers["Cache-Control"] == "no-store"
    assert "ETag" not in response.headers


def test_what_changed_is_marked_and_what_stayed_is_printed_once(at_work: Client, rater: Rater) -> None:
    page = at_work.get(address(first(rater)), headers=HTMX).content.decode()

    # 50 mL less 50 µL
    assert '<span class="vh">changed to </span><strong>49.95 mL</strong> <span class="diff">−0.05 mL</span>' in page
    assert page.count("dark brown, slightly cloudy") == 1


def test_used_up_material_and_rejected_action_are_said(at_work: Client, rater: Rater) -> None:
    refused = rater.assignments.get(position=3)
    consumed = first(rater)
    consumed.item.payload = blinding.blind_transition(used_up())
    consumed.item.save()

    assert "Action rejected:" in at_work.get(address(refused)).content.decode()
    assert "<strong>used up</strong>" in at_work.get(address(consumed)).content.decode()


def test_a_new_name_is_marked_as_a_change(at_work: Client, rater: Rater) -> None:
    page = at_work.get(address(first(rater))).content.decode()
    assert '<th scope="row">Name</th>' not in page

    item = first(rater).item
    item.payload["after"][0]["name"] = "Brewed tea"
    item.save()

    page = at_work.get(address(first(rater))).content.decode()
    assert '<span class="vh">changed to </span><strong>Brewed tea</strong>' in page


def test_many_materials_alike_are_shown_as_one_table(at_work: Client, rater: Rater) -> None:
    item = first(rater).item
    vials = [{**item.payload["after"][1], "ref": ref, "name": f"Vial {ref}"} for ref in "DEF"]
    item.payload["after"] = [item.payload["after"][0], *vials]
    item.save()

    page = at_work.get(address(first(rater))).content.decode()

    assert "3 materials with the same properties" in page
    assert page.count("pale brown, clear") == 1
    assert all(f"Vial {ref}" in page for ref in "DEF")


def test_a_record_may_be_empty(client: Client, db: None) -> None:
    rater = open_study(EVIDENCE, items=2).raters.get(label="R01")
    studies.start(rater)
    client.force_login(rater.user)

    page = client.get(address(first(rater))).content.decode()

    assert "Nothing was done." in page and 'data-key="s"' in page and 'data-key="p"' not in page


def test_a_record_leads_to_its_observations_and_folds_away_what_a_step_left_alone(client: Client, db: None) -> None:
    rater = open_study(EVIDENCE, items=2).raters.get(label="R01")
    studies.start(rater)
    client.force_login(rater.user)
    item = first(rater).item
    tea = {
        "ref": "A", "name": "Tea", "properties": [["Volume", "10 mL"]], "condition": "on ice",
        "availability": "can be used further", "continues": "",
    }  # fmt: skip
    seen = {"type": "visual", "description": "Tea", "value": "brown"}
    step = {"time": "after 0 min", "action": {"name": "Mix", "parameters": []}, "materials": [], "rejected": ""}
    item.payload["steps"] = [
        step | {"number": 1, "made": [tea], "observations": []},
        step | {"number": 2, "made": [tea | {"properties": [["Volume", "9 mL"]]}], "observations": [seen, seen]},
    ]
    item.save()

    page = client.get(address(first(rater))).content.decode()
    steps = page[page.index('id="step-1"') :]

    assert '<a href="#step-2"><strong>2</strong>' in page and 'href="#step-1"' not in page
    new, _, folded = steps[steps.index('id="step-2"') :].partition("<details>")
    assert "9 mL" in new and "on ice" not in new and "on ice" in folded
    assert "<details>" not in steps[: steps.index('id="step-2"')]


def test_many_materials_that_read_alike_are_a_list_of_names(at_work: Client, rater: Rater) -> None:
    item = first(rater).item
    vials = [{**item.payload["after"][1], "ref": ref, "name": f"Vial {ref}"} for ref in "DEF"]
    item.payload["after"] = [item.payload["after"][0], *vials]
    item.save()

    page = at_work.get(address(first(rater))).content.decode()

    names = page[page.index('<ul class="batch__names">') :].partition("</ul>")[0]
    assert all(f"Vial {ref}" in names for ref in "DEF") and "batch__table" not in page


def test_text_of_a_model_is_shown_as_text(at_work: Client, rater: Rater) -> None:
    item = first(rater).item
    item.payload["action"]["name"] = "<script>alert(1)</script>"
    item.save()

    page = at_work.get(address(first(rater))).content.decode()

    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page and "<script>alert" not in page


@pytest.mark.parametrize("headers", [{}, HTMX], ids=["plain", "htmx"])
def test_pages_differ_by_what_the_item_shows_and_by_nothing_else(
    at_work: Client, rater: Rater, headers: dict[str, str]
) -> None:
    def shown(place: Assignment) -> tuple[str, dict[str, Any]]:
        response = at_work.get(address(place), headers=headers)
        body = without_token(response.content.decode()).replace(str(place.code), "CODE")
        body = re.sub(r'(name="submission_id" value=")[0-9a-f-]{36}', r"\1", body)
        return body, {k: v for k, v in response.headers.items() if k != "Content-Length"}

    one, other = rater.assignments.get(position=1), rater.assignments.get(position=2)
    other.item.payload = {**one.item.payload}
    other.item.save()

    assert shown(one) == shown(other)


def test_reasoning_and_barcodes_stay_behind(at_work: Client, rater: Rater) -> None:
    for assignment in rater.assignments.all():
        page = at_work.get(address(assignment)).content.decode()
        assert "SECRET" not in page and "MAT-" not in page


# ---------------------------------------------------------------- when things go wrong


def test_the_error_pages_need_no_database(client: Client, rf: RequestFactory) -> None:
    assert "There is no such page" in client.get("/nowhere/").content.decode()
    assert "Something failed on our side" in server_error(rf.get("/")).content.decode()


def test_a_form_without_its_token_says_what_to_do(rater: Rater) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(rater.user)

    refused = strict.post(address(first(rater)), answer())

    assert refused.status_code == 403
    assert "This form was out of date" in refused.content.decode()
    assert not Rating.objects.exists()


def test_the_payloads_of_these_tests_differ() -> None:
    assert len({blinding.payload_digest(p) for p in transition_payloads(5)}) == 5


def test_seconds_run_from_the_first_showing(at_work: Client, rater: Rater) -> None:
    at_work.get(address(first(rater)))
    shown_at = first(rater).opened_at
    assert shown_at is not None
    Assignment.objects.filter(pk=first(rater).pk).update(opened_at=shown_at - timedelta(seconds=30))
    at_work.get(address(first(rater)))  # a second look does not start the clock again

    at_work.post(address(first(rater)), answer())

    assert 30 <= Rating.objects.get().seconds < 60
