"""Pages of studies: what staff, members and others can see and do."""

import csv
import io
import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from ratings.models import Rating, Study
from ratings.raters import simulated_raters
from ratings.studies import lifecycle
from tests.support import run_factory, study_factory, study_log_texts

pytestmark = pytest.mark.django_db


@pytest.fixture
def study(ada: User) -> Study:
    run_factory.create_pool()
    return owned(study_factory.create_open_study(), ada)


def owned(study: Study, by: User) -> Study:
    """Return the study with this user as its creator."""
    Study.objects.filter(pk=study.pk).update(created_by=by)
    study.refresh_from_db()
    return study


def drafted(by: User, **changes: Any) -> Study:
    return lifecycle.create_study(lifecycle.parse_protocol(study_factory.build_protocol(**changes)), by)


def text(answer: Any) -> str:
    return str(answer.content.decode())


def at(name: str, study: Study, *more: str) -> str:
    return reverse(f"ratings:{name}", args=[study.slug, *more])


def unblinded(study: Study) -> Study:
    lifecycle.close_and_unblind(study, User.objects.create_user("eve", is_staff=True))
    study.refresh_from_db()
    return study


MOVES = ("open_study", "pause_study", "resume_study", "close_study", "reopen_study")
PAGES = ("unblind_study", "study_guide", "matrix", "preview", "delete_study")


def addresses(study: Study) -> list[str]:
    named = ("study", "ratings_csv", "protocol_json", "duplicate", *MOVES, *PAGES)
    own = [at(name, study) for name in named]
    return [reverse("ratings:new_study"), at("build", study, "items"), *own]


def test_study_pages_send_strangers_to_sign_in_and_return_404_to_raters(client: Client, study: Study) -> None:
    for address in addresses(study):
        assert client.get(address).status_code == client.post(address).status_code == 302
    client.force_login(study_factory.fill_rater_place(study).user)
    for address in [*addresses(study), reverse("ratings:studies")]:
        assert {client.get(address).status_code, client.post(address).status_code} <= {404, 405}, address
    study.refresh_from_db()
    assert study.is_open


def test_study_returns_404_to_staff_without_a_role(study: Study, client: Client) -> None:
    client.force_login(User.objects.create_user("other", is_staff=True))
    for address in addresses(study)[1:]:
        assert {client.get(address).status_code, client.post(address).status_code} <= {404, 405}, address
    assert "Small study" not in text(client.get(reverse("ratings:studies")))
    assert client.get(reverse("ratings:new_study")).status_code == 200


def test_analyst_can_read_a_study_but_not_run_it(study: Study, client: Client) -> None:
    ana = User.objects.create_user("ana")
    study.members.create(user=ana, role="analyst")
    client.force_login(ana)
    assert "Small study" in text(client.get(reverse("ratings:studies")))
    assert "New study" not in text(client.get(reverse("ratings:studies")))
    page = text(client.get(at("study", study)))
    assert "Results are sealed" in page
    for word in ("Pause", "Duplicate", "Instructions", "Assignments"):
        assert f">{word}<" not in page
    for name in (*MOVES, *PAGES, "duplicate"):
        assert {client.get(at(name, study)).status_code, client.post(at(name, study)).status_code} <= {404, 405}
    assert client.get(reverse("ratings:new_study")).status_code == 404
    study.refresh_from_db()
    assert study.is_open


def test_study_status_changes_reject_get(staff: Client, study: Study) -> None:
    for name in (*MOVES, "duplicate"):
        # Closing has a page that asks first.
        assert staff.get(at(name, study)).status_code == (200 if name == "close_study" else 405)
    study.refresh_from_db()
    assert study.is_open
    assert Study.objects.count() == 1


def test_study_list_starts_with_the_newest(staff: Client, ada: User) -> None:
    for slug in ("first", "second", "third"):
        drafted(ada, slug=slug)
    listed = [one.slug for one in staff.get(reverse("ratings:studies")).context["studies"]]
    assert listed == ["third", "second", "first"]


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("{", "not a study document in valid JSON"),
        ("[]", "must be a JSON object"),
        ('{"kind": "<b>"}', "kind: is &#x27;&lt;b&gt;&#x27;; allowed: transition_plausibility"),
        ("[" * 100_000, "not a study document in valid JSON"),
        ("", "Choose a file or paste the text of a study document."),
    ],
)
def test_invalid_study_document_shows_its_problems(staff: Client, document: str, said: str) -> None:
    answer = staff.post(reverse("ratings:new_study"), {"by": "document", "do": "create", "text": document})
    assert answer.status_code == 422
    assert said in text(answer)


def test_study_document_that_is_not_text_is_rejected(staff: Client) -> None:
    sent = SimpleUploadedFile("study.json", b"\xff\xfe\x00")
    answer = staff.post(reverse("ratings:new_study"), {"by": "document", "do": "create", "file": sent})
    assert answer.status_code == 422


def test_draft_shows_requested_and_available_items_and_opens(staff: Client, ada: User) -> None:
    run_factory.create_pool(4)
    study = drafted(ada)
    page = text(staff.get(at("study", study)))
    assert "Draft" in page
    assert f'hx-get="{at("stock", study)}"' in page
    table = text(staff.get(at("stock", study)))
    assert table.count(">enough<") == 3
    assert table in text(staff.get(at("study", study) + "?counted=1"))
    answer = staff.post(at("open_study", study), follow=True)
    assert "The study is open." in text(answer)
    assert "Collecting" in text(answer)
    again = staff.post(at("open_study", study), follow=True)
    assert "only a study that is draft can be opened" in text(again)
    assert staff.get(at("stock", study)).status_code == 204


def test_draft_with_too_few_items_cannot_be_opened_and_shows_the_reason(staff: Client, ada: User) -> None:
    run_factory.create_pool(2)
    study = drafted(ada)
    for address in (at("stock", study), at("study", study) + "?counted=1"):
        assert "Not enough items are available." in text(staff.get(address))
    answer = staff.post(at("open_study", study), follow=True)
    assert "the pool holds 2" in text(answer)


def test_draft_links_to_vetting_if_missing_twins_await_it(staff: Client, ada: User) -> None:
    run_factory.create_pool(2)
    study = drafted(ada, vetting="person")
    page = text(staff.get(at("stock", study)))
    assert f'<a href="{reverse("ratings:vetting")}">vet twins</a>' in page


def test_study_page_hides_sources_and_answers_until_unblinding(staff: Client, study: Study) -> None:
    all_rated(study)
    for verb in (None, "close_study"):
        page = text(staff.post(at(verb, study), follow=True) if verb else staff.get(at("study", study)))
        assert "Results are sealed" in page
        assert "20 of 20" in page
        assert not re.search(r"Wilson|κ|[Kk]appa is|Statistics|offline, (obvious|subtle) error<", page)


def test_study_status_changes_show_a_message_and_are_logged(staff: Client, study: Study) -> None:
    said = {
        "pause_study": "is paused", "resume_study": "accepts ratings again", "close_study": "is closed",
        "reopen_study": "accepts ratings again",
    }  # fmt: skip
    for name, words in said.items():
        assert words in text(staff.post(at(name, study), follow=True))
    staff.post(at("close_study", study))
    staff.post(at("unblind_study", study), {"password": "enough-of-ada"})
    refused = text(staff.post(at("reopen_study", study), follow=True))
    assert "only a study that is closed can be reopened" in refused
    assert list(study.events.values_list("kind", flat=True)) == [
        "created", "opened", "paused", "resumed", "closed", "reopened", "closed", "unblinded",
    ]  # fmt: skip


def test_closing_asks_first_and_says_how_many_raters_are_active(staff: Client, study: Study, ada: User) -> None:
    now = timezone.now()
    raters = list(study.raters.order_by("number"))
    for rater, minutes in zip(raters, (5, 5, 20), strict=False):
        rater.user, rater.last_seen_at = User.objects.create_user(rater.label), now - timedelta(minutes=minutes)
        rater.save()
    study.raters.filter(pk=raters[1].pk).update(finished_at=now)  # done, so closing changes nothing for them
    asked = text(staff.get(at("close_study", study)))
    assert "1 rater was active in the last 15 minutes." in asked and "You can reopen the study" in asked
    # An answer counts as activity, and so does an item that was opened and waits for its answer.
    raters[2].assignments.filter(pk=raters[2].assignments.first().pk).update(opened_at=now)
    assert "2 raters were active in the last 15 minutes." in text(staff.get(at("close_study", study)))
    study.refresh_from_db()
    assert study.is_open
    lifecycle.pause_study(study, ada)
    assert "pause it instead" not in text(staff.get(at("close_study", study)))
    assert "can be reopened until it is unblinded" in text(staff.post(at("close_study", study), follow=True))
    assert "only a study that is open or paused can be closed" in text(staff.get(at("close_study", study), follow=True))


@pytest.mark.parametrize(
    ("moves", "offered"),
    [
        ((), {"Pause", "Close", "Duplicate"}),
        ((lifecycle.pause_study,), {"Resume", "Close", "Duplicate"}),
        ((lifecycle.close_study,), {"Reopen", "Unblind", "Duplicate"}),
        ((lifecycle.close_study, lifecycle.unblind_study), {"Duplicate"}),
    ],
)
def test_study_page_offers_only_the_possible_status_changes(
    staff: Client, study: Study, ada: User, moves: tuple[Any, ...], offered: set[str]
) -> None:
    for move in moves:
        move(study, ada)
    page = text(staff.get(at("study", study)))
    words = {"Open the study", "Pause", "Resume", "Close", "Reopen", "Unblind", "Duplicate", "Delete"}
    assert {word for word in words if re.search(rf'class="btn[^>]*>{word}<', page)} == offered


def test_unblinding_requires_a_closed_study_and_the_password(staff: Client, study: Study) -> None:
    early = staff.post(at("unblind_study", study), {"password": "enough-of-ada"}, follow=True)
    assert "Close the study first" in text(early)
    staff.post(at("close_study", study))
    asked = text(staff.get(at("unblind_study", study)))
    assert "This cannot be undone" in asked
    assert "0 of 20 ratings have been collected" in asked
    assert "stop rule is not met" in asked
    for wrong in ({}, {"password": ""}, {"password": "enough of ada"}):
        answer = staff.post(at("unblind_study", study), wrong)
        assert answer.status_code == 422
        assert "That is not your password." in text(answer)
    study.refresh_from_db()
    assert study.status == "closed"
    answer = staff.post(at("unblind_study", study), {"password": "enough-of-ada"}, follow=True)
    assert "The study is unblinded." in text(answer)
    assert study.events.get(kind="unblinded").by.username == "ada"
    assert staff.get(at("unblind_study", study)).status_code == 302


def test_study_page_says_interim_until_the_stop_rule_is_met(staff: Client, study: Study) -> None:
    assert "20 ratings to go." in text(staff.get(at("study", study)))
    all_rated(study)
    assert "Interim" not in text(staff.get(at("study", study)))


def test_results_unblinded_before_the_stop_rule_stay_interim(staff: Client, study: Study) -> None:
    study_factory.rate_everything(study_factory.fill_rater_place(study, "R01"))
    page = text(staff.get(at("study", unblinded(study))))
    assert "these results are not final" in page


def test_new_instructions_are_a_new_version_and_old_versions_remain(staff: Client, study: Study) -> None:
    answer = staff.post(at("study_guide", study), {"guide": "Mind the units."}, follow=True)
    assert "version 2" in text(answer)
    study.refresh_from_db()
    assert (study.guide, study.guide_version) == ("Mind the units.", 2)
    assert list(study.guides.values_list("number", "text", "by__username")) == [
        (1, "", None),
        (2, "Mind the units.", "ada"),
    ]
    assert study.protocol["guide"] == ""
    staff.post(at("study_guide", study), {"guide": "Mind the units."})
    assert study.guides.count() == 2
    assert staff.post(at("study_guide", study), {"guide": "x" * 5001}).status_code == 422
    staff.post(at("close_study", study))
    late = staff.post(at("study_guide", study), {"guide": "Later."})
    assert late.status_code == 422
    assert "only a study that is open or paused" in text(late)


def all_rated(study: Study) -> list[Rating]:
    for rater in study_factory.fill_all_rater_places(study):
        study_factory.rate_everything(rater)
    return list(Rating.objects.order_by("assignment__item__code", "assignment__rater__label"))


def test_simulated_ratings_are_labelled_wherever_they_appear(staff: Client, study: Study) -> None:
    simulated_raters.simulate_raters(study, 2, 0.9, 0.3, seed=1)
    given = Rating.objects.filter(assignment__rater__simulated=True).count()
    pages = (text(staff.get(at("study", study))), text(staff.get(at("results", unblinded(study), "about"))))
    said = (f"they gave {given} of {given} ratings", "All 2 raters are simulated: these are not human data.")
    for page, sentence in zip(pages, said, strict=True):
        assert "Simulated ratings." in page
        assert sentence in page
        assert page.count(">simulated</span>") == 2
    assert f"{given} simulated" in text(staff.get(reverse("ratings:studies")))


def test_ratings_of_dropped_raters_are_not_mentioned(staff: Client, study: Study) -> None:
    simulated_raters.simulate_raters(study, 2, 0.9, 0.3, seed=1)
    gone, stays = study.raters.filter(simulated=True).order_by("pk")
    study.raters.filter(pk=gone.pk).update(dropped=True, withdrawn_at=study.opened_at)
    given = Rating.objects.filter(assignment__rater=stays).count()
    assert re.findall(r"\d+ of \d+ raters are simulated[^.]*", text(staff.get(at("study", study)))) == [
        f"1 of {study.raters.filter(dropped=False).count()} raters are simulated; they gave {given} of {given} ratings"
    ]


def test_ratings_csv_is_blinded_until_unblinding_and_logged(staff: Client, study: Study) -> None:
    all_rated(study)
    blind = staff.get(at("ratings_csv", study))
    assert blind.streaming
    assert blind["Content-Disposition"] == 'attachment; filename="small-study-ratings-blinded.csv"'
    assert blind["X-Content-Type-Options"] == "nosniff"
    assert {row["source"] for row in rows(blind)} == {""}
    whole = staff.get(at("ratings_csv", unblinded(study)))
    assert {row["perturbation"] for row in rows(whole)} == {"none", "obvious", "subtle"}
    assert study_log_texts.list_event_texts(study, "exported") == ["blinded", "with sources"]


def rows(answer: Any) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode())))


def test_protocol_download_equals_the_submitted_document(staff: Client, study: Study) -> None:
    answer = staff.get(at("protocol_json", study))
    assert answer["Content-Disposition"].startswith("attachment")
    assert lifecycle.parse_protocol({**json.loads(text(answer)), "slug": "again"}).seed == 7


def test_unknown_study_returns_404(staff: Client) -> None:
    for name in ("study", "ratings_csv", "protocol_json", *PAGES):
        assert staff.get(reverse(f"ratings:{name}", args=["nowhere"])).status_code == 404


def test_hostile_names_are_shown_as_text(staff: Client, ada: User) -> None:
    run_factory.create_pool()
    study = owned(
        study_factory.create_open_study(name="<script>alert(1)</script>", slug="hostile", question="<img src=x>"), ada
    )
    draft = drafted(ada, name="<script>alert(2)</script>", slug="draft", guide="<script>alert(3)</script>")
    pages = [at(name, draft) for name in ("study", "matrix", "preview", "delete_study")]
    pages += [at("build", draft, step) for step in ("question", "items", "raters", "screen")]
    lifecycle.close_study(study)
    for name in ("study", "matrix", "preview", "study_guide", "unblind_study"):
        pages.append(at(name, study))
    for address in (*pages, reverse("ratings:studies")):
        page = text(staff.get(address))
        assert "&lt;script&gt;" in page
        assert "<script>alert" not in page


def test_study_list_query_count_does_not_grow_with_rows(staff: Client, ada: User) -> None:
    run_factory.create_pool(40)
    few, many = (
        owned(
            study_factory.create_open_study(
                name=str(n), slug=f"s{n}", sources=[{"cast": "offline", "perturbation": "none", "count": n}]
            ),
            ada,
        )
        for n in (10, 20)
    )
    for study in (few, many):
        all_rated(study)
    for page in ("study", "matrix", "preview"):
        assert queries(staff, at(page, few)) == queries(staff, at(page, many))
    unblinded(few)
    lifecycle.close_and_unblind(many, User.objects.get(username="eve"))
    assert queries(staff, at("study", few)) == queries(staff, at("study", many))
    for number in range(8):
        drafted(ada, slug=f"d{number}")
    ten = queries(staff, reverse("ratings:studies"))
    for number in range(8, 18):
        drafted(ada, slug=f"d{number}")
    assert queries(staff, reverse("ratings:studies")) == ten


def queries(client: Client, address: str) -> int:
    with CaptureQueriesContext(connection) as caught:
        assert client.get(address).status_code == 200
    return len(caught)
