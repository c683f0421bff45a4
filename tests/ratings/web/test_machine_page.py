"""The page of model raters: request, continue and retry ratings, budgets, and no answers before unblinding."""

import re
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from ratings.models import EVIDENCE, Item, MachineRater, MachineRating, Membership, Study
from ratings.raters import model_raters
from ratings.web.study import machines
from simulation.models import Job, ModelCall, Run
from simulation.templatetags.simulation_text import format_money
from tests.support import model_casts, rating_room
from tests.support.embedded_worker import run_until_idle
from tests.support.model_server import Server

pytestmark = pytest.mark.django_db


@pytest.fixture
def study(db: None) -> Study:
    """An open study with five transitions and two raters."""
    return rating_room.create_open_study(items=5)


@pytest.fixture
def model(db: None, model_server: Server) -> str:
    return model_casts.create_priced_model("a-rater").name


def address(study: Study) -> str:
    return reverse("ratings:machines", args=[study.slug])


def page(client: Client, study: Study) -> str:
    """Return the text of the page with single spaces."""
    answer = client.get(address(study))
    assert answer.status_code == 200
    return text(answer)


def text(answer: Any) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", answer.content.decode()).split())


def post(client: Client, study: Study, **sent: str) -> Any:
    return client.post(address(study), sent, follow=True)


def row(client: Client, study: Study, label: str) -> str:
    """Return the text of one model rater's row."""
    shown = client.get(address(study)).content.decode()
    [found] = [part for part in shown.split("<tr>") if f'<th scope="row">{label} ' in part]
    return " ".join(re.sub(r"<[^>]*>", " ", found.split("</tr>")[0]).split())


def test_checker_ratings_are_requested_followed_and_completed(boss: Client, study: Study) -> None:
    shown = page(boss, study)
    assert "5 ratings will be created" in shown and "Maximum cost" not in shown, "rules cost nothing"
    answer = post(boss, study, cast="checker")
    assert "M1, WetBench checker: 5 items to rate, payload alone." in text(answer)
    job = Job.objects.get()
    assert job.asked_by and job.asked_by.username == "root" and f'id="job-{job.code}"' in answer.content.decode()
    assert row(boss, study, "M1").startswith("M1 WetBench checker shown the payload alone queued 0 0 0 5 free")
    run_until_idle()
    # Of the five, the checker can decide those in which amounts can be compared; both kinds of answer are done.
    rated = MachineRating.objects.filter(failed="").count()
    assert rated > 0 and f"done {rated} " in row(boss, study, "M1") and "0 free" in row(boss, study, "M1")
    answer = boss.get(address(study)).content.decode()
    assert f"job-{job.code}" not in answer and "Continue" not in row(boss, study, "M1")
    assert 'value="checker"' not in answer, "who rates already is no choice any more"


def test_model_rater_shows_the_maximum_cost_before_and_the_cost_after(
    boss: Client, study: Study, model: str, model_server: Server
) -> None:
    told = boss.get(address(study), {"cast": model}, headers={"HX-Request": "true"})
    assert "<html" not in told.content.decode() and not Run.objects.exists() and not MachineRater.objects.exists()
    # Five items, at most three turns each.
    assert "5 ratings will be created" in text(told) and "15 calls" in text(told) and "5 calls if nothing" in text(told)
    bound = Decimal(re.search(r"\$([\d.]+)", text(told)).group(1))  # type: ignore[union-attr]  # the assertion
    assert "M1, a-rater: 5 items to rate" in text(post(boss, study, cast=model, max_cost="5"))
    assert Run.objects.get(kind="ratings").max_cost == 5
    run_until_idle()
    cost = sum((call.cost or Decimal(0) for call in ModelCall.objects.all()), Decimal(0))
    assert 0 < cost < bound
    assert f"done 5 0 0 0 {format_money(cost)} of max. $5.00" in row(boss, study, "M1")
    assert int(model_server.get_counters()["total"]["requests"]) == 5


def test_maximum_cost_button_without_javascript_shows_the_cost_and_requests_no_ratings(
    boss: Client, study: Study, model: str
) -> None:
    answer = boss.post(address(study), {"cast": model, "size": "1"})
    assert answer.status_code == 200 and "15 calls" in text(answer) and not MachineRater.objects.exists()


def test_maximum_cost_from_the_longest_items_is_an_upper_bound(
    boss: Client, study: Study, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = machines.MachineForm(study, {"cast": model})
    exact = machines.build_size_context(form)["worst"]
    monkeypatch.setattr(machines, "MEASURED", 2)
    bound = machines.build_size_context(form)["worst"]
    assert bound.calls == exact.calls == 15 and bound.tokens >= exact.tokens and bound.cost >= exact.cost
    assert "all others counted as the longest" in bound.assumes


def test_model_rater_retries_failed_items_and_continues_after_a_stop(
    boss: Client, study: Study, model: str, model_server: Server
) -> None:
    model_server.set_faults({"fault": "refusal", "times": 1})
    post(boss, study, cast=model)
    run_until_idle()
    assert "done, some failed 4 0 1 refused 0" in row(boss, study, "M1")
    code = str(MachineRater.objects.get().code)
    assert "Retry 1 failed" in row(boss, study, "M1")
    model_server.reset_all()
    assert "1 item to rate" in text(post(boss, study, rater=code, do="retry"))
    boss.post(reverse("ratings:cancel_job", args=[Job.objects.latest("pk").code]))
    assert "stopped by a person 4 0 1 refused 0" in row(boss, study, "M1") and "Continue" in row(boss, study, "M1")
    post(boss, study, rater=code, do="go_on")
    run_until_idle()
    assert "done 5 0 0 0" in row(boss, study, "M1")
    assert "no items left to rate" in text(post(boss, study, rater=code, do="go_on"))


def test_retry_of_an_older_job_leads_to_the_current_one(
    boss: Client, study: Study, model: str, model_server: Server
) -> None:
    model_server.set_faults({"fault": "unauthorized_401", "times": 1})
    model_raters.request_ratings(study, model)
    run_until_idle()
    older = Job.objects.get(status="failed", reason="credentials")
    newer = model_raters.request_ratings(study, model, retry=True).job
    assert newer
    retry = reverse("ratings:retry_job", args=[older.code])
    assert boss.post(retry)["Location"] == reverse("ratings:job", args=[newer.code])
    assert list(Job.objects.filter(status__in=Job.RUNNABLE)) == [newer]
    run_until_idle()
    assert "Nothing is left to rate." in text(boss.post(retry, follow=True)) and Job.objects.count() == 2


def test_retry_continues_after_a_person_fixed_the_cause(
    boss: Client, study: Study, model: str, model_server: Server
) -> None:
    model_server.set_faults({"fault": "unauthorized_401", "times": 1})
    model_raters.request_ratings(study, model)
    run_until_idle()
    boss.post(reverse("ratings:retry_job", args=[Job.objects.get().code]))
    run_until_idle()
    assert "done 5 0 0 0" in row(boss, study, "M1")


def test_used_up_budget_can_be_raised_and_nothing_is_paid_twice(
    boss: Client, study: Study, model: str, model_server: Server
) -> None:
    # Maximum of a call: 16,000 output tokens and a prompt of about 5,000 bytes; it uses a few hundred.
    post(boss, study, cast=model, max_tokens="22000")
    run_until_idle()
    done = MachineRating.objects.count()
    assert 0 < done < 5 and f"{5 - done} $" in row(boss, study, "M1")
    shown = page(boss, study)
    assert "M1 has used up its budget" in shown and "Continue: M1" not in shown
    code = str(MachineRater.objects.get().code)
    refused = boss.post(address(study), {"rater": code, "budget": "1", "max_tokens": "1"})
    assert refused.status_code == 422 and "Enter a larger value" in text(refused)
    post(boss, study, rater=code, budget="1", max_tokens="300000")
    run_until_idle()
    assert "done 5 0 0 0" in row(boss, study, "M1") and int(model_server.get_counters()["total"]["requests"]) == 5


def test_unavailable_models_are_listed_with_the_reason(
    boss: Client, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_casts.create_priced_model("a-rater")
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    assert "1 model needs an API key OPENAI_API_KEY a-rater" in page(boss, study)
    answer = boss.post(address(study), {"cast": "a-rater"})
    assert answer.status_code == 422 and not MachineRater.objects.exists()


def test_model_context_is_a_choice_if_raters_differ_in_it(boss: Client, model: str) -> None:
    always, mixed = (
        rating_room.create_open_study(items=3, display={"context": seen}) for seen in ([True], [False, True])
    )
    assert 'name="context"' not in boss.get(address(always)).content.decode()
    assert 'name="context"' in boss.get(address(mixed)).content.decode()
    assert "payload and context." in text(post(boss, mixed, cast=model, context="yes"))
    assert MachineRater.objects.get().setup["with_context"] is True
    assert "payload alone." in text(post(boss, mixed, cast="checker", context="yes")), "the checker reads none"


def test_checker_is_not_offered_for_evidence_records(boss: Client, model: str) -> None:
    study = rating_room.create_open_study(EVIDENCE, items=3)
    shown = boss.get(address(study)).content.decode()
    assert 'value="checker"' not in shown and 'value="a-rater"' in shown


def test_answers_of_model_raters_are_shown_only_after_unblinding(boss: Client, study: Study) -> None:
    model_raters.request_ratings(study, "checker")
    run_until_idle()
    MachineRating.objects.filter(failed="").update(reasoning="LEAK", marks=["LEAK"], error="LEAK")
    before = boss.get(address(study)).content.decode()
    MachineRating.objects.filter(failed="").update(verdict=False)
    assert body(before) == body(boss.get(address(study)).content.decode()), "no verdict changes anything on it"
    assert "LEAK" not in before and not re.search(r"(?<!im)plausible", body(before)) and "sealed" in before
    Study.objects.update(status="unblinded", unblinded_at=timezone.now())
    assert "results page" in page(boss, study)


def body(shown: str) -> str:
    """Return the page without the parts that differ between requests."""
    return re.sub(r'((?:csrfmiddlewaretoken" value|FToken": )["=]*)[^"]*', "", shown)


def test_analysts_see_progress_of_model_raters_and_cannot_request_ratings(client: Client, study: Study) -> None:
    analyst = User.objects.create_user("ann")
    Membership.objects.create(study=study, user=analyst, role="analyst")
    model_raters.request_ratings(study, "checker")
    client.force_login(analyst)
    assert "M1 WetBench checker" in page(client, study) and "<form" not in main(client, study)
    assert client.post(address(study), {"cast": "checker"}).status_code in (404, 405)
    assert MachineRater.objects.count() == 1


def main(client: Client, study: Study) -> str:
    return client.get(address(study)).content.decode().partition("<main")[2]


def test_model_rater_of_another_study_returns_404(boss: Client, study: Study) -> None:
    other = rating_room.create_open_study(items=3)
    foreign = model_raters.request_ratings(other, "checker").rater
    for code in (str(foreign.code), "nonsense"):
        assert boss.post(address(study), {"rater": code, "do": "retry"}).status_code == 404


def test_model_ratings_of_a_draft_cannot_be_requested(boss: Client, study: Study) -> None:
    Study.objects.update(status="draft")
    assert "A draft has no frozen items yet" in page(boss, study) and "Request ratings" not in page(boss, study)
    assert "Open the study first" in text(post(boss, study, cast="checker"))
    assert not MachineRater.objects.exists()


def test_model_rater_page_query_count_does_not_grow(boss: Client, model_server: Server) -> None:
    counts = []
    for items, names in ((3, ("a-1",)), (6, ("b-1", "b-2", "b-3"))):
        study = rating_room.create_open_study(items=items)
        for name in names:
            model_raters.request_ratings(study, model_casts.create_priced_model(name).name)
        run_until_idle()
        boss.get(address(study))
        with CaptureQueriesContext(
            connection,
        ) as seen:
            boss.get(address(study))
        counts.append(len(seen))
        assert Item.objects.filter(study=study).count() == items
    assert counts[0] == counts[1]


def test_hostile_names_are_shown_as_text(boss: Client, study: Study, model_server: Server) -> None:
    model_raters.request_ratings(study, model_casts.create_priced_model("<script>alert(1)</script>").name)
    shown = boss.get(address(study)).content.decode()
    assert "&lt;script&gt;alert(1)" in shown and "<script>alert" not in shown
