"""The page of machine raters: ordered, gone on with, retried and paid for there, and nothing of what they say before unblinding."""

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
from ratings.raters.machines import machines
from ratings.web.study import machine_form
from simulation.models import Job, ModelCall, Run
from simulation.scripted_server import Server
from simulation.templatetags.simulation_spend import money
from tests.support import rating_room, speakers
from tests.support.embedded import play_all

pytestmark = pytest.mark.django_db


@pytest.fixture
def study(db: None) -> Study:
    """Five transitions, two seats."""
    return rating_room.open_study(items=5)


@pytest.fixture
def model(db: None, model_server: Server) -> str:
    return speakers.model("a-rater").name


def address(study: Study) -> str:
    return reverse("ratings:machines", args=[study.slug])


def page(client: Client, study: Study) -> str:
    """What the page says, as text with single spaces."""
    answer = client.get(address(study))
    assert answer.status_code == 200
    return text(answer)


def text(answer: Any) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", answer.content.decode()).split())


def post(client: Client, study: Study, **sent: str) -> Any:
    return client.post(address(study), sent, follow=True)


def row(client: Client, study: Study, label: str) -> str:
    """The line of one machine rater."""
    shown = client.get(address(study)).content.decode()
    [found] = [part for part in shown.split("<tr>") if f'<th scope="row">{label} ' in part]
    return " ".join(re.sub(r"<[^>]*>", " ", found.split("</tr>")[0]).split())


def test_the_checker_is_ordered_watched_and_done(boss: Client, study: Study) -> None:
    shown = page(boss, study)
    assert "5 ratings will be created" in shown and "Maximum cost" not in shown, "rules cost nothing"
    answer = post(boss, study, cast="checker")
    assert "M1, WetBench checker: 5 items to rate, payload alone." in text(answer)
    job = Job.objects.get()
    assert job.asked_by and job.asked_by.username == "root" and f'id="job-{job.code}"' in answer.content.decode()
    assert row(boss, study, "M1").startswith("M1 WetBench checker given the payload alone queued 0 0 0 5 free")
    play_all()
    # Of the five, the checker can decide those in which amounts can be compared; both kinds of answer are done.
    rated = MachineRating.objects.filter(failed="").count()
    assert rated > 0 and f"done {rated} " in row(boss, study, "M1") and "0 free" in row(boss, study, "M1")
    answer = boss.get(address(study)).content.decode()
    assert f"job-{job.code}" not in answer and "Go on" not in row(boss, study, "M1")
    assert 'value="checker"' not in answer, "who rates already is no choice any more"


def test_a_model_has_its_worst_case_told_before_it_is_ordered_and_its_cost_after(
    boss: Client, study: Study, model: str, model_server: Server
) -> None:
    told = boss.get(address(study), {"cast": model}, headers={"HX-Request": "true"})
    assert "<html" not in told.content.decode() and not Run.objects.exists() and not MachineRater.objects.exists()
    # Five items, at most three turns each.
    assert "5 ratings will be created" in text(told) and "15 calls" in text(told) and "5 calls if nothing" in text(told)
    bound = Decimal(re.search(r"\$([\d.]+)", text(told)).group(1))  # type: ignore[union-attr]  # the assertion
    assert "M1, a-rater: 5 items to rate" in text(post(boss, study, cast=model, max_cost="5"))
    assert Run.objects.get(kind="ratings").max_cost == 5
    play_all()
    cost = sum((call.cost or Decimal(0) for call in ModelCall.objects.all()), Decimal(0))
    assert 0 < cost < bound
    assert f"done 5 0 0 0 {money(cost)} of at most $5.00" in row(boss, study, "M1")
    assert int(model_server.counters()["total"]["requests"]) == 5


def test_without_scripts_a_button_works_the_worst_case_out_and_orders_nothing(
    boss: Client, study: Study, model: str
) -> None:
    answer = boss.post(address(study), {"cast": model, "size": "1"})
    assert answer.status_code == 200 and "15 calls" in text(answer) and not MachineRater.objects.exists()


def test_the_worst_case_of_many_items_is_above_that_of_each(
    boss: Client, study: Study, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = machine_form.MachineForm(study, {"cast": model})
    exact = machine_form.size(form)["worst"]
    monkeypatch.setattr(machine_form, "MEASURED", 2)
    bound = machine_form.size(form)["worst"]
    assert bound.calls == exact.calls == 15 and bound.tokens >= exact.tokens and bound.cost >= exact.cost
    assert "every other counted as the longest" in bound.assumes


def test_what_failed_is_retried_and_what_was_stopped_goes_on(
    boss: Client, study: Study, model: str, model_server: Server
) -> None:
    model_server.faults({"fault": "refusal", "times": 1})
    post(boss, study, cast=model)
    play_all()
    assert "done, some failed 4 0 1 refused 0" in row(boss, study, "M1")
    code = str(MachineRater.objects.get().code)
    assert "Retry 1 failed" in row(boss, study, "M1")
    model_server.reset()
    assert "1 item to rate" in text(post(boss, study, rater=code, do="retry"))
    boss.post(reverse("ratings:cancel_job", args=[Job.objects.latest("pk").code]))
    assert "stopped by a person 4 0 1 refused 0" in row(boss, study, "M1") and "Go on" in row(boss, study, "M1")
    post(boss, study, rater=code, do="go_on")
    play_all()
    assert "done 5 0 0 0" in row(boss, study, "M1")
    assert "nothing is left to rate" in text(post(boss, study, rater=code, do="go_on"))


def test_try_again_on_an_older_job_leads_to_the_one_that_stands(
    boss: Client, study: Study, model: str, model_server: Server
) -> None:
    model_server.faults({"fault": "unauthorized_401", "times": 1})
    machines.order(study, model)
    play_all()
    older = Job.objects.get(status="failed", reason="credentials")
    newer = machines.order(study, model, retry=True).job
    assert newer
    retry = reverse("ratings:retry_job", args=[older.code])
    assert boss.post(retry)["Location"] == reverse("ratings:job", args=[newer.code])
    assert list(Job.objects.filter(status__in=Job.RUNNABLE)) == [newer]
    play_all()
    assert "Nothing is left to rate." in text(boss.post(retry, follow=True)) and Job.objects.count() == 2


def test_try_again_opens_what_a_person_has_put_right(
    boss: Client, study: Study, model: str, model_server: Server
) -> None:
    model_server.faults({"fault": "unauthorized_401", "times": 1})
    machines.order(study, model)
    play_all()
    boss.post(reverse("ratings:retry_job", args=[Job.objects.get().code]))
    play_all()
    assert "done 5 0 0 0" in row(boss, study, "M1")


def test_a_budget_that_is_used_up_is_set_anew_and_nothing_is_paid_twice(
    boss: Client, study: Study, model: str, model_server: Server
) -> None:
    # A call's worst case: 16,000 tokens out, and a prompt of some 5,000 bytes; it uses a few hundred of them.
    post(boss, study, cast=model, max_tokens="22000")
    play_all()
    done = MachineRating.objects.count()
    assert 0 < done < 5 and f"{5 - done} $" in row(boss, study, "M1")
    shown = page(boss, study)
    assert "M1 has used its budget up" in shown and "Go on: M1" not in shown
    code = str(MachineRater.objects.get().code)
    refused = boss.post(address(study), {"rater": code, "budget": "1", "max_tokens": "1"})
    assert refused.status_code == 422 and "Enter a larger value" in text(refused)
    post(boss, study, rater=code, budget="1", max_tokens="300000")
    play_all()
    assert "done 5 0 0 0" in row(boss, study, "M1") and int(model_server.counters()["total"]["requests"]) == 5


def test_who_cannot_rate_here_is_named_with_what_is_missing(
    boss: Client, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    speakers.model("a-rater")
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    assert "1 more cannot rate here a-rater :" in page(boss, study) and "OPENAI_API_KEY" in page(boss, study)
    answer = boss.post(address(study), {"cast": "a-rater"})
    assert answer.status_code == 422 and not MachineRater.objects.exists()


def test_the_context_is_a_choice_where_some_raters_see_it_and_others_do_not(boss: Client, model: str) -> None:
    always, mixed = (rating_room.open_study(items=3, display={"context": seen}) for seen in ([True], [False, True]))
    assert 'name="context"' not in boss.get(address(always)).content.decode()
    assert 'name="context"' in boss.get(address(mixed)).content.decode()
    assert "payload and context." in text(post(boss, mixed, cast=model, context="yes"))
    assert MachineRater.objects.get().setup["with_context"] is True
    assert "payload alone." in text(post(boss, mixed, cast="checker", context="yes")), "the checker reads none"


def test_records_are_no_choice_for_the_checker(boss: Client, model: str) -> None:
    study = rating_room.open_study(EVIDENCE, items=3)
    shown = boss.get(address(study)).content.decode()
    assert 'value="checker"' not in shown and 'value="a-rater"' in shown


def test_nothing_of_what_was_said_shows_before_unblinding_and_the_results_after(boss: Client, study: Study) -> None:
    machines.order(study, "checker")
    play_all()
    MachineRating.objects.filter(failed="").update(reasoning="LEAK", marks=["LEAK"], error="LEAK")
    before = boss.get(address(study)).content.decode()
    MachineRating.objects.filter(failed="").update(verdict=False)
    assert body(before) == body(boss.get(address(study)).content.decode()), "no verdict changes anything on it"
    assert "LEAK" not in before and not re.search(r"(?<!im)plausible", body(before)) and "sealed" in before
    Study.objects.update(status="unblinded", unblinded_at=timezone.now())
    assert "page of results" in page(boss, study)


def body(shown: str) -> str:
    """The page without the parts that are new with every request."""
    return re.sub(r'((?:csrfmiddlewaretoken" value|FToken": )["=]*)[^"]*', "", shown)


def test_analysts_see_how_far_it_is_and_order_nothing(client: Client, study: Study) -> None:
    analyst = User.objects.create_user("ann")
    Membership.objects.create(study=study, user=analyst, role="analyst")
    machines.order(study, "checker")
    client.force_login(analyst)
    assert "M1 WetBench checker" in page(client, study) and "<form" not in main(client, study)
    assert client.post(address(study), {"cast": "checker"}).status_code in (404, 405)
    assert MachineRater.objects.count() == 1


def main(client: Client, study: Study) -> str:
    return client.get(address(study)).content.decode().partition("<main")[2]


def test_a_machine_of_another_study_is_out_of_reach(boss: Client, study: Study) -> None:
    other = rating_room.open_study(items=3)
    foreign = machines.order(other, "checker").rater
    for code in (str(foreign.code), "nonsense"):
        assert boss.post(address(study), {"rater": code, "do": "retry"}).status_code == 404


def test_a_draft_has_nothing_to_rate(boss: Client, study: Study) -> None:
    Study.objects.update(status="draft")
    assert "A draft has no frozen items yet" in page(boss, study) and "Order ratings" not in page(boss, study)
    assert "Open the study first" in text(post(boss, study, cast="checker"))
    assert not MachineRater.objects.exists()


def test_the_number_of_queries_does_not_grow_with_machines_that_are_done_or_with_items(
    boss: Client, model_server: Server
) -> None:
    counts = []
    for items, names in ((3, ("a-1",)), (6, ("b-1", "b-2", "b-3"))):
        study = rating_room.open_study(items=items)
        for name in names:
            machines.order(study, speakers.model(name).name)
        play_all()
        boss.get(address(study))
        with CaptureQueriesContext(
            connection,
        ) as seen:
            boss.get(address(study))
        counts.append(len(seen))
        assert Item.objects.filter(study=study).count() == items
    assert counts[0] == counts[1]


def test_hostile_names_are_shown_as_text(boss: Client, study: Study, model_server: Server) -> None:
    machines.order(study, speakers.model("<script>alert(1)</script>").name)
    shown = boss.get(address(study)).content.decode()
    assert "&lt;script&gt;alert(1)" in shown and "<script>alert" not in shown
