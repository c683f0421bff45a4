"""The studies' pages, as staff and everyone else meet them."""

import csv
import io
import json
import re
from typing import Any

import factories
import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from ratings import simulated, studies
from ratings.models import Rating, Study

pytestmark = pytest.mark.django_db


@pytest.fixture
def staff(client: Client) -> Client:
    client.force_login(User.objects.create_user("ada", is_staff=True))
    return client


@pytest.fixture
def study() -> Study:
    factories.pool()
    return factories.open_study()


def text(answer: Any) -> str:
    return str(answer.content.decode())


def at(name: str, study: Study, *more: str) -> str:
    return reverse(f"ratings:{name}", args=[study.slug, *more])


def unblinded(study: Study) -> Study:
    studies.unblind(study, User.objects.create_user("eve", is_staff=True))
    study.refresh_from_db()
    return study


def filled(**changes: Any) -> dict[str, Any]:
    """The form for what `factories.protocol` says as a document."""
    return {
        "by": "form", "do": "create", "name": "Small study", "kind": "transition_plausibility",
        "count-offline-none": 4, "count-offline-obvious": 3, "count-offline-subtle": 3,
        "experiments": ["caffeine", "zebrafish"], "ratings_per_item": 2, "seed": 7, **changes,
    }  # fmt: skip


def addresses(study: Study) -> list[str]:
    named = ("study", "open_study", "close_study", "reopen_study", "unblind_study", "ratings_csv", "protocol_json")
    own = [at(name, study) for name in named]
    return [reverse("ratings:studies"), reverse("ratings:new_study"), *own, at("make_link", study, "R01")]


def test_strangers_are_sent_to_sign_in_and_raters_find_no_page(client: Client, study: Study) -> None:
    rater = study.raters.all()[0]
    for address in addresses(study):
        assert client.get(address).status_code == client.post(address).status_code == 302
    client.force_login(rater.user)
    for address in addresses(study):
        assert client.get(address).status_code == client.post(address).status_code == 404
    study.refresh_from_db()
    assert study.is_open


def test_what_changes_a_study_answers_no_get(staff: Client, study: Study) -> None:
    for name in ("open_study", "close_study", "reopen_study"):
        assert staff.get(at(name, study)).status_code == 405
    assert staff.get(at("make_link", study, "R01")).status_code == 405
    assert staff.get(at("unblind_study", study)).status_code == 200
    study.refresh_from_db()
    assert study.is_open


def test_the_form_and_the_document_make_the_same_study(staff: Client) -> None:
    factories.pool()
    staff.post(reverse("ratings:new_study"), filled(slug="by-form"))
    document = json.dumps(factories.protocol(slug="by-text"))
    staff.post(reverse("ratings:new_study"), {"by": "document", "do": "create", "text": document})
    sent = SimpleUploadedFile("study.json", document.replace("by-text", "by-file").encode())
    staff.post(reverse("ratings:new_study"), {"by": "document", "do": "create", "file": sent})
    made = [{**row.protocol, "slug": ""} for row in Study.objects.all()]
    assert len(made) == 3
    assert made[0] == made[1] == made[2]
    assert set(Study.objects.values_list("created_by__username", flat=True)) == {"ada"}


def test_the_newest_study_stands_first(staff: Client) -> None:
    for slug in ("first", "second", "third"):
        studies.create_study(studies.read_protocol({**factories.protocol(slug=slug), "experiments": "all"}))
    assert [one.slug for one in staff.get(reverse("ratings:studies")).context["studies"]] == [
        "third",
        "second",
        "first",
    ]


def test_the_form_says_how_much_there_is_of_each_source(staff: Client) -> None:
    factories.pool(10)
    factories.evidence_pool(3, cast="offline-lapses")
    cells = dict(staff.get(reverse("ratings:new_study")).context["rows"])
    # two episodes were submitted in the pool of ten, but no classifier judged them
    assert [(one.outcomes, one.records) for one in cells["offline"]] == [(10, 0), (10, None), (10, None)]
    assert [(one.outcomes, one.records) for one in cells["offline-random"]] == [(0, 0), (0, None), (0, None)]
    assert cells["offline-lapses"][0].records == 3


def test_checking_says_what_the_pool_holds_and_makes_nothing(staff: Client) -> None:
    factories.pool(10)
    answer = staff.post(reverse("ratings:new_study"), filled(do="check", **{"count-offline-subtle": 400}))
    assert answer.status_code == 200
    assert "too few" in text(answer)
    assert [(one.source.count, one.have) for one in answer.context["stock"]] == [(4, 10), (3, 10), (400, 10)]
    assert not Study.objects.exists()


@pytest.mark.parametrize(
    ("wrong", "field", "said"),
    [
        ({"name": ""}, "name", "This field is required"),
        ({"slug": "Not a Slug"}, "slug", "small letters and digits"),
        ({"ratings_per_item": 0}, "ratings_per_item", "greater than or equal to 1"),
        ({"raters": 1}, "raters", "need at least 2 raters"),
        ({"kind": "evidence_sufficiency"}, "count-offline-obvious", "allowed: none"),
        ({"experiments": []}, "experiments", "Choose at least one experiment."),
    ],
)
def test_a_wrong_form_names_each_field_and_keeps_what_was_written(
    staff: Client, wrong: dict[str, Any], field: str, said: str
) -> None:
    factories.pool()
    answer = staff.post(reverse("ratings:new_study"), filled(**{"guide": "Kept words", **wrong}))
    assert answer.status_code == 422
    assert said in " ".join(answer.context["form"].errors[field])
    assert "Kept words" in text(answer)
    assert not Study.objects.exists()


def test_a_form_without_any_item_and_a_taken_slug_are_refused(staff: Client, study: Study) -> None:
    none = {f"count-offline-{wrong}": "" for wrong in ("none", "obvious", "subtle")}
    answer = staff.post(reverse("ratings:new_study"), filled(slug="other", **none))
    assert answer.status_code == 422
    assert "how many items you want" in text(answer)
    answer = staff.post(reverse("ratings:new_study"), filled(slug=study.slug))
    assert answer.status_code == 422
    assert "is the slug of another study" in text(answer)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("{", "not a study document in JSON"),
        ("[]", "must be a JSON object"),
        ('{"kind": "<b>"}', "kind: is &#x27;&lt;b&gt;&#x27;; allowed: transition_plausibility"),
        ("[" * 100_000, "not a study document in JSON"),
        ("", "Choose a file or paste its text."),
    ],
)
def test_a_wrong_document_says_what_is_wrong_with_it(staff: Client, document: str, said: str) -> None:
    answer = staff.post(reverse("ratings:new_study"), {"by": "document", "do": "create", "text": document})
    assert answer.status_code == 422
    assert said in text(answer)


def test_a_file_that_is_no_text_is_refused(staff: Client) -> None:
    sent = SimpleUploadedFile("study.json", b"\xff\xfe\x00")
    answer = staff.post(reverse("ratings:new_study"), {"by": "document", "do": "create", "file": sent})
    assert answer.status_code == 422


def test_a_draft_shows_need_and_have_and_opens(staff: Client) -> None:
    factories.pool(4)
    study = studies.create_study(studies.read_protocol(factories.protocol()))
    page = text(staff.get(at("study", study)))
    assert "Draft" in page
    assert "too few" not in page
    answer = staff.post(at("open_study", study), follow=True)
    assert "Make a link for each rater" in text(answer)
    assert "Collecting" in text(answer)
    again = staff.post(at("open_study", study), follow=True)
    assert "only a study that is draft can be opened" in text(again)


def test_a_draft_that_the_pool_cannot_fill_offers_no_opening_and_says_why(staff: Client) -> None:
    factories.pool(2)
    study = studies.create_study(studies.read_protocol(factories.protocol()))
    page = text(staff.get(at("study", study)))
    assert "The pool is too small." in page
    assert re.search(r"<button[^>]*disabled[^>]*>Open the study", page)
    answer = staff.post(at("open_study", study), follow=True)
    assert "the pool holds 2" in text(answer)


def test_a_link_shows_once_signs_its_rater_in_and_is_kept_nowhere(staff: Client, study: Study, client: Client) -> None:
    answer = staff.post(at("make_link", study, "R02"))
    link = re.findall(r'value="(http[^"]+)"', text(answer))[0]
    token = link.rstrip("/").rsplit("/", 1)[1]
    assert answer["Cache-Control"].startswith("max-age=0, no-cache, no-store")
    assert token not in text(staff.get(at("study", study)))
    stranger = Client()
    stranger.get(reverse("ratings:rater_link", args=[token]))
    assert stranger.session["_auth_user_id"] == str(study.raters.get(label="R02").user_id)


def test_no_link_is_made_for_unknown_or_simulated_raters(staff: Client, study: Study) -> None:
    study.raters.filter(label="R02").update(simulated=True)
    for label, said in (("R99", "has no rater"), ("R02", "is a simulated rater")):
        assert said in text(staff.post(at("make_link", study, label), follow=True))
    assert "Make link" in text(staff.get(at("study", study)))


def test_until_it_is_unblinded_the_page_tells_nothing_of_sources_or_answers(staff: Client, study: Study) -> None:
    for rater in study.raters.all():
        factories.rate_all(rater)
    for verb in (None, "close_study"):
        page = text(staff.post(at(verb, study), follow=True) if verb else staff.get(at("study", study)))
        assert "Results are sealed" in page
        assert "20 of 20" in page
        assert '<svg class="chart' not in page
        assert not re.search(r"Wilson|κ|AUC|\d ?%", page)


def test_closing_reopening_and_unblinding_each_say_what_became_of_it(staff: Client, study: Study) -> None:
    assert "is closed" in text(staff.post(at("close_study", study), follow=True))
    assert "takes ratings again" in text(staff.post(at("reopen_study", study), follow=True))
    asked = text(staff.get(at("unblind_study", study)))
    assert "It cannot be undone" in asked
    assert "0 of 20 have been given" in asked
    assert "is unblinded" in text(staff.post(at("unblind_study", study), follow=True))
    refused = text(staff.post(at("reopen_study", study), follow=True))
    assert "only a study that is closed can be reopened" in refused
    assert staff.get(at("unblind_study", study)).status_code == 302
    assert list(study.events.values_list("kind", flat=True)) == [
        "created",
        "opened",
        "closed",
        "reopened",
        "closed",
        "unblinded",
    ]


def test_the_chart_the_table_and_the_summary_say_the_same_numbers(staff: Client, study: Study) -> None:
    all_rated(study)
    for wrong, yes in (("none", 7), ("obvious", 1), ("subtle", 4)):
        own = Rating.objects.filter(assignment__item__source__perturbation=wrong).order_by("pk")
        own.update(verdict=False)
        Rating.objects.filter(pk__in=own.values_list("pk", flat=True)[:yes]).update(verdict=True)
    answer = staff.get(at("study", unblinded(study)))
    page = text(answer)
    lines = answer.context["report"].sources
    counted = {(line.perturbation, line.rate.k, line.rate.n) for line in lines}
    # four genuine items and three of each error, two ratings each
    assert counted == {("none", 7, 8), ("obvious", 1, 6), ("subtle", 4, 6)}
    for line in lines:
        shown = f"{line.rate.value:.0%} ({line.rate.k} of {line.rate.n})"
        # twice in each of two drawings: in the sentence and beside the bar
        assert page.count(shown) == 4
        assert f"{line.rate.k} of {line.rate.n}</td>" in page
        assert f"{line.rate.low:.0%} to {line.rate.high:.0%}" in page
    assert page.count('role="img"') == 2
    assert not re.search(r"\sstyle=", page)


def all_rated(study: Study) -> list[Rating]:
    for rater in study.raters.all():
        factories.rate_all(rater)
    return list(Rating.objects.order_by("assignment__item__code", "assignment__rater__label"))


def test_undefined_numbers_say_why(staff: Client, study: Study) -> None:
    page = text(staff.get(at("study", unblinded(study))))
    assert "there are no ratings" in page
    assert "there are fewer than two raters with ratings" in page
    assert "no rating has a known truth" in page


def test_simulated_ratings_are_named_as_such_wherever_they_show(staff: Client, study: Study) -> None:
    simulated.simulate_raters(study, 2, 0.9, 0.3, seed=1)
    given = Rating.objects.filter(assignment__rater__simulated=True).count()
    for page in (text(staff.get(at("study", study))), text(staff.get(at("study", unblinded(study))))):
        assert "Simulated ratings." in page
        assert f"they gave {given} of {given} ratings" in page
        assert page.count(">simulated</span>") == 2
    assert f"{given} simulated" in text(staff.get(reverse("ratings:studies")))


def test_a_study_of_evidence_shows_raters_against_the_classifier(staff: Client) -> None:
    factories.evidence_pool()
    study = studies.create_study(studies.read_protocol(factories.evidence_protocol()))
    studies.open_study(study)
    for rater in study.raters.all():
        factories.rate_all(rater)
    page = text(staff.get(at("study", unblinded(study))))
    assert "Sufficiency by source" in page
    assert "offline/checklist" in page
    assert "Confidence AUC" not in page


def test_the_csv_is_blinded_until_the_study_is_not_and_both_are_logged(staff: Client, study: Study) -> None:
    all_rated(study)
    blind = staff.get(at("ratings_csv", study))
    assert blind.streaming
    assert blind["Content-Disposition"] == 'attachment; filename="small-study-ratings-blinded.csv"'
    assert blind["X-Content-Type-Options"] == "nosniff"
    assert {row["source"] for row in rows(blind)} == {""}
    whole = staff.get(at("ratings_csv", unblinded(study)))
    assert {row["perturbation"] for row in rows(whole)} == {"none", "obvious", "subtle"}
    assert list(study.events.filter(kind="exported").values_list("detail", flat=True)) == ["blinded", "with sources"]


def rows(answer: Any) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode())))


def test_the_protocol_comes_back_as_the_document_it_was(staff: Client, study: Study) -> None:
    answer = staff.get(at("protocol_json", study))
    assert answer["Content-Disposition"].startswith("attachment")
    assert studies.read_protocol({**json.loads(text(answer)), "slug": "again"}).seed == 7


def test_an_unknown_study_is_a_plain_404(staff: Client) -> None:
    for name in ("study", "unblind_study", "ratings_csv", "protocol_json"):
        assert staff.get(reverse(f"ratings:{name}", args=["nowhere"])).status_code == 404


def test_hostile_names_are_shown_as_text(staff: Client) -> None:
    factories.pool()
    study = factories.open_study(name="<script>alert(1)</script>", slug="hostile", question="<img src=x>")
    for address in (at("study", study), reverse("ratings:studies"), at("unblind_study", study)):
        page = text(staff.get(address))
        assert "&lt;script&gt;" in page
        assert "<script>alert" not in page


def test_lists_and_reports_take_as_many_queries_for_twenty_rows_as_for_ten(staff: Client) -> None:
    factories.pool(40)
    few, many = (
        factories.open_study(
            name=str(n), slug=f"s{n}", sources=[{"cast": "offline", "perturbation": "none", "count": n}]
        )
        for n in (10, 20)
    )
    for study in (few, many):
        all_rated(study)
    assert queries(staff, at("study", few)) == queries(staff, at("study", many))
    unblinded(few)
    studies.unblind(many, User.objects.get(username="eve"))
    assert queries(staff, at("study", few)) == queries(staff, at("study", many))
    studies.read_protocol(factories.protocol())
    for number in range(8):
        studies.create_study(studies.read_protocol(factories.protocol(slug=f"d{number}")))
    ten = queries(staff, reverse("ratings:studies"))
    for number in range(8, 18):
        studies.create_study(studies.read_protocol(factories.protocol(slug=f"d{number}")))
    assert queries(staff, reverse("ratings:studies")) == ten


def queries(client: Client, address: str) -> int:
    with CaptureQueriesContext(connection) as caught:
        assert client.get(address).status_code == 200
    return len(caught)
