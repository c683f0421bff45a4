"""Tests of model raters: they see only the frozen payload, pay for no call twice and show nothing before unblinding."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from ratings.blinding import item_view
from ratings.blinding.material_rows import list_mark_keys
from ratings.models import EVIDENCE, MachineRater, MachineRating, Study
from ratings.raters import machine_raters, model_raters
from ratings.studies import SealedError, StudyError, progress
from simulation.calls import run_usage
from simulation.casts import prompt_store
from simulation.jobs import jobs
from simulation.llm.prompt_data import delimit_json
from simulation.models import Job, ModelCall, Run
from simulation.runs import control
from tests.support import model_casts, rating_room, study_log_texts
from tests.support.embedded_worker import run_until_idle
from tests.support.model_server import Server, run_in_thread
from tests.support.steps import run_concurrently

pytestmark = pytest.mark.django_db


@pytest.fixture
def study(db: None) -> Study:
    """Open a study of five transitions with two raters."""
    return rating_room.create_open_study(items=5)


@pytest.fixture
def model(db: None, model_server: Server) -> str:
    return model_casts.create_priced_model("a-rater").name


def run_rating_command(study: Study, cast: str, *options: str) -> str:
    out = StringIO()
    call_command("rate_with_model", study.slug, "--cast", cast, *options, stdout=out, stderr=StringIO())
    return out.getvalue()


def count_requests(server: Server) -> int:
    return int(server.get_counters()["total"]["requests"])


def mark_unblinded(study: Study) -> Study:
    Study.objects.filter(pk=study.pk).update(status="unblinded", unblinded_at=timezone.now())
    study.refresh_from_db()
    return study


# A model


def test_model_rater_rates_every_item_once_and_is_listed_apart_from_people(
    study: Study, model: str, model_server: Server
) -> None:
    told = run_rating_command(study, model)
    assert "M1, a-rater: 5 items to rate, payload alone" in told and "5 of 5 items rated" in told
    assert "5 calls" in told and count_requests(model_server) == 5
    rater = MachineRater.objects.get()
    assert (rater.label, rater.name, rater.ratings.count()) == ("M1", "a-rater", 5)
    assert study.raters.count() == 2 and not study.raters.filter(label="M1").exists()
    for rating in rater.ratings.select_related("item"):
        assert rating.verdict is not None and 1 <= (rating.confidence or 0) <= 5
        assert rating.payload_sha256 == rating.item.payload_sha256
        assert set(rating.marks) <= set(list_mark_keys(rating.item.payload)) and bool(rating.marks) == (
            not rating.verdict
        )
    calls = ModelCall.objects.order_by("number")
    assert [(call.number, call.role, call.purpose, call.state) for call in calls] == [
        (place, "rating", "rate", "answered") for place in range(5)
    ]
    assert {call.job_id for call in calls} == {Job.objects.get().pk} and rater.run_id == calls[0].run_id
    assert count_requests(model_server) == 5 and "no items left to rate" in run_rating_command(study, model)
    assert count_requests(model_server) == 5


def test_model_rater_prompt_has_the_payload_but_no_code_or_source(
    study: Study, model: str, model_server: Server
) -> None:
    run_rating_command(study, model)
    for item, (system, asked) in zip(study.items.order_by("pk"), list_sent_texts(model_server), strict=True):
        assert study.question in system and delimit_json("CONTEXT", "not shown") in asked
        for other in study.items.all():
            assert (delimit_json("ITEM", other.payload) in asked) == (other == item)
            assert str(other.code) not in asked and other.payload_sha256 not in asked
        assert not [word for word in ("offline", "perturb", "SECRET", "MAT-", study.slug) if word in system + asked]


def list_sent_texts(server: Server) -> list[list[str]]:
    """Return the texts of each request in order: instructions, then the item."""
    return [[message["content"] for message in request["body"]["messages"]] for request in server.get_requests()]


def test_model_rater_sees_the_context_if_every_arm_shows_it_or_on_request_if_one_arm_does(
    model: str, model_server: Server
) -> None:
    always, mixed, never = (
        rating_room.create_open_study(items=3, display={"context": context})
        for context in ([True], [False, True], [False])
    )
    assert "payload and context" in run_rating_command(always, model)
    assert "payload alone" in run_rating_command(mixed, model)
    assert ["Find out how much caffeine" in asked for _, asked in list_sent_texts(model_server)] == [True] * 3 + [
        False
    ] * 3
    with pytest.raises(CommandError, match="must continue with it"):
        run_rating_command(mixed, model, "--context", "yes")
    with pytest.raises(CommandError, match="sees a context"):
        run_rating_command(never, model, "--context", "yes")


def test_model_rater_of_evidence_records_uses_the_words_of_sufficiency(model: str, model_server: Server) -> None:
    study = rating_room.create_open_study(EVIDENCE, items=3)
    run_rating_command(study, model)
    assert MachineRating.objects.filter(verdict__isnull=False).count() == 3
    assert all("not sufficient" in str(request["body"]) for request in model_server.get_requests())
    with pytest.raises(CommandError, match="rates single steps"):
        run_rating_command(study, "checker")


def test_model_rater_given_as_a_cast_is_its_classifier_and_rule_based_casts_are_rejected(
    study: Study, model_server: Server
) -> None:
    model_casts.create_cast("model_cast_server")
    run_rating_command(study, "model_cast_server")
    assert MachineRater.objects.get().name == "a-judge"
    assert set(ModelCall.objects.values_list("model_name", flat=True)) == {"a-judge"}
    model_casts.create_cast("half", evidence_classifier={"plays": "offline/checklist"})
    with pytest.raises(CommandError, match="judges by rules"):
        run_rating_command(study, "half")
    with pytest.raises(CommandError, match="called checker"):
        run_rating_command(study, "offline")
    with pytest.raises(CommandError, match=r"no model and no cast 'nobody'.*a-judge"):
        run_rating_command(study, "nobody")


def test_model_rating_without_an_api_key_is_rejected_before_anything_is_created(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_casts.create_priced_model("a-rater")
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(CommandError, match="OPENAI_API_KEY") as caught:
        run_rating_command(study, "a-rater")
    assert caught.value.returncode == 2
    assert not MachineRater.objects.exists() and not Run.objects.filter(kind="ratings").exists()


def test_model_rating_of_a_draft_study_is_rejected(study: Study, model: str) -> None:
    Study.objects.update(status="draft")
    with pytest.raises(CommandError, match="is a draft"):
        run_rating_command(study, model)


# Failures


def test_model_rating_that_failed_is_stored_and_retried_only_on_request(
    study: Study, model: str, model_server: Server
) -> None:
    model_server.set_faults({"fault": "refusal", "times": 1})
    told = run_rating_command(study, model)
    assert "4 of 5 items rated" in told and "1 without a verdict: refused; use --retry-failed to retry" in told
    failed = MachineRating.objects.get(verdict=None)
    assert failed.failed == "refused" and failed.error
    model_server.reset_all()
    assert "no items left" in run_rating_command(study, model) and count_requests(model_server) == 0
    assert "5 of 5 items rated" in run_rating_command(study, model, "--retry-failed")
    assert count_requests(model_server) == 1 and MachineRating.objects.filter(failed="").count() == 5


@pytest.mark.parametrize("fault", ["bad_request_400", "server_500"])
def test_model_rating_continues_after_an_item_that_the_provider_rejects(
    study: Study, model: str, model_server: Server, settings: Any, fault: str
) -> None:
    settings.RETRY_ATTEMPTS = 2
    model_server.set_faults(make_item_fault(study, 1, fault))
    told = run_rating_command(study, model)
    reason = {"bad_request_400": "bad request", "server_500": "provider unavailable"}[fault]
    assert "4 of 5 items rated" in told and f"1 without a verdict: {reason}; use --retry-failed to retry" in told
    model_server.reset_all()
    assert "no items left" in run_rating_command(study, model)
    assert (
        "5 of 5 items rated" in run_rating_command(study, model, "--retry-failed") and count_requests(model_server) == 1
    )


def test_model_rating_records_no_item_failure_if_the_provider_is_unavailable(
    study: Study, model: str, model_server: Server, settings: Any
) -> None:
    settings.RETRY_ATTEMPTS = 2
    model_server.set_faults(*(make_item_fault(study, place, "server_500") for place in range(1, 5)))
    with pytest.raises(CommandError, match="status page"):
        run_rating_command(study, model)
    assert [rating.failed for rating in MachineRating.objects.all()] == [""]
    assert count_requests(model_server) == 1 + 3 * 2  # the first item, then three items twice each
    model_server.reset_all()
    assert "5 of 5 items rated" in run_rating_command(study, model) and count_requests(model_server) == 4


def make_item_fault(study: Study, place: int, fault: str) -> dict[str, str]:
    """Return a rule that makes the provider fail for this item only."""
    item = study.items.order_by("pk")[place]
    return {"fault": fault, "contains": delimit_json("ITEM", item.payload).split("\n")[0], "role": "rater"}


def test_model_rating_reuses_logged_answers_after_the_provider_failed_during_their_repair(
    model: str, model_server: Server, settings: Any
) -> None:
    settings.RETRY_ATTEMPTS = 2
    study = rating_room.create_open_study(items=3)
    repair = {"fault": "server_500", "contains": "could not be used"}
    model_server.set_faults(repair, {"fault": "missing_field", "times": 3, "role": "rater"})
    with pytest.raises(CommandError, match="status page"):
        run_rating_command(study, model)
    answered = ModelCall.objects.filter(state="answered", turn=0)
    assert answered.count() == 3 and not MachineRating.objects.exists()
    model_server.reset_all()
    assert "3 of 3 items rated" in run_rating_command(study, model)
    assert answered.count() == 3 and count_requests(model_server) == 3  # only the repairs


def test_model_rating_retry_skips_final_failures_and_ignores_clock_differences(study: Study, model: str) -> None:
    run_rating_command(study, model)
    first, second, third = MachineRating.objects.order_by("pk")[:3]
    for rating, failed in (
        (first, model_raters.CANNOT_JUDGE),
        (second, model_raters.UNDECIDABLE),
        (third, "no_verdict"),
    ):
        later = timezone.now() + timedelta(hours=1)  # as if written by a host with a fast clock
        MachineRating.objects.filter(pk=rating.pk).update(verdict=None, confidence=None, failed=failed, at=later)
    before = progress.compute_state_digest(study)
    assert model_raters.request_ratings(study, model, retry=True).owed == 1
    run_until_idle()
    assert list(MachineRating.objects.exclude(failed="").order_by("pk")) == [first, second]
    assert progress.compute_state_digest(study) != before


def test_model_rating_retry_sends_a_new_call_for_an_unreadable_answer(
    study: Study, model: str, model_server: Server
) -> None:
    model_server.set_faults({"fault": "missing_field", "times": 2, "role": "rater"})
    assert "1 without a verdict: no verdict" in run_rating_command(study, model)
    assert ModelCall.objects.filter(purpose="repair").count() == 1
    before = ModelCall.objects.count()
    run_rating_command(study, model, "--retry-failed")
    assert ModelCall.objects.count() == before + 1 and not MachineRating.objects.exclude(failed="").exists()


def test_model_rating_stops_at_its_budget_and_continues_with_a_larger_one_without_paying_twice(
    study: Study, model: str, model_server: Server
) -> None:
    # A call reserves at most 16,000 output tokens and a prompt of about 5,000 bytes; it uses a few hundred tokens.
    with pytest.raises(CommandError, match="larger budget"):
        run_rating_command(study, model, "--max-tokens", "22000")
    done = MachineRating.objects.count()
    assert 0 < done < 5 and count_requests(model_server) == done
    run = Run.objects.get(kind="ratings")
    assert run.held_tokens <= 22000
    assert "5 of 5 items rated" in run_rating_command(study, model, "--max-tokens", "200000")
    assert count_requests(model_server) == 5 and Run.objects.get(kind="ratings").max_tokens == 200_000


def test_model_rating_keeps_limits_that_are_not_given_again(study: Study, model: str) -> None:
    with pytest.raises(CommandError, match="larger budget"):
        run_rating_command(study, model, "--max-tokens", "22000", "--max-cost", "5", "--max-minutes", "600")
    assert "5 of 5 items rated" in run_rating_command(study, model, "--max-tokens", "200000")
    run = Run.objects.get(kind="ratings")
    assert (run.max_tokens, run.max_cost, run.max_seconds) == (200_000, Decimal(5), 36_000)  # 600 minutes


def test_model_rating_cost_limit_requires_a_price(study: Study, model_server: Server) -> None:
    model_casts.create_priced_model("no-price", priced=False)
    with pytest.raises(CommandError, match="needs prices"):
        run_rating_command(study, "no-price", "--max-cost", "1")
    assert not MachineRater.objects.exists()


def test_model_rating_stops_at_a_rejected_api_key_and_the_next_request_continues(
    study: Study, model: str, model_server: Server
) -> None:
    model_server.set_faults({"fault": "unauthorized_401", "times": 1})
    with pytest.raises(CommandError, match="Set the key"):
        run_rating_command(study, model)
    assert not MachineRating.objects.exists(), "a rejected key must not be recorded as a failure of the item"
    assert "5 of 5 items rated" in run_rating_command(study, model)


def test_model_rating_retry_after_a_rejected_api_key_is_one_job_without_repeated_calls(
    study: Study, model: str, model_server: Server
) -> None:
    model_server.set_faults({"fault": "unauthorized_401", "times": 1})
    with pytest.raises(CommandError, match="Set the key"):
        run_rating_command(study, model)
    made = model_raters.request_ratings(study, model, retry=True)
    assert list(Job.objects.filter(status__in=Job.RUNNABLE)) == [made.job]
    run_until_idle()
    # Five items, and the call with the rejected key.
    assert count_requests(model_server) == 6 and MachineRating.objects.filter(failed="").count() == 5


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
def test_model_rating_retried_four_times_at_once_is_one_job(model_server: Server) -> None:
    study, model = rating_room.create_open_study(items=5), model_casts.create_priced_model("a-rater").name
    model_server.set_faults({"fault": "refusal", "times": 2})
    run_rating_command(study, model)
    made = run_concurrently(lambda: model_raters.request_ratings(study, model, retry=True).job, 4)
    assert set(made) == set(Job.objects.filter(status__in=Job.RUNNABLE)) and len(set(made)) == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
def test_model_rating_requested_while_its_run_is_retried_is_one_job(model_server: Server) -> None:
    study, model = rating_room.create_open_study(items=5), model_casts.create_priced_model("a-rater").name
    model_server.set_faults({"fault": "unauthorized_401", "times": 1})
    with pytest.raises(CommandError, match="Set the key"):
        run_rating_command(study, model)
    run = Run.objects.get(kind="ratings")
    acts: Iterator[Callable[[], object]] = iter(
        2 * [lambda: model_raters.request_ratings(study, model, retry=True), lambda: control.retry_blocked(run)]
    )
    run_concurrently(lambda: next(acts)(), 4)
    assert Job.objects.filter(status__in=Job.RUNNABLE).count() == 1


def test_model_rating_uses_the_call_log_for_answers_received_before_a_worker_died(
    study: Study, model: str, model_server: Server
) -> None:
    run_rating_command(study, model)
    last = MachineRating.objects.latest("pk")
    said = (last.verdict, last.confidence, last.marks, last.reasoning)
    # State after a kill between the answer and its rating: the job has an expired lease.
    last.delete()
    past = timezone.now() - timedelta(minutes=5)
    Job.objects.update(status="running", lease_until=past, ended_at=None, begun=True, result={})
    run_rating_command(study, model)
    again = MachineRating.objects.latest("pk")
    assert count_requests(model_server) == 5 and (again.verdict, again.confidence, again.marks, again.reasoning) == said
    # State after three kills: the job has failed, and a new job continues from it.
    again.delete()
    Job.objects.update(status="failed", reason="worker_lost", error="worker lost")
    run_rating_command(study, model)
    assert count_requests(model_server) == 5 and Job.objects.count() == 2 and MachineRating.objects.count() == 5


@pytest.mark.django_db(transaction=True)
def test_model_rating_killed_during_a_call_loses_only_that_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    study = rating_room.create_open_study(items=5)
    model_casts.create_priced_model("a-rater")
    with run_in_thread(latency=0.6) as server:
        for name, value in server.get_environ().items():
            monkeypatch.setenv(name, value)
        child = start_rating_process(study)
        wait_until(lambda: count_requests(server) >= 3)  # counted on arrival: the third has no answer yet
        child.kill()
        child.wait()
        assert MachineRating.objects.count() == 2
        assert ModelCall.objects.filter(state="started").count() == 1
        run_rating_command(study, "a-rater")
        states = sorted(ModelCall.objects.values_list("state", flat=True))
        assert states == ["answered"] * 5 + ["lost"] and count_requests(server) == 6
    assert MachineRating.objects.filter(verdict__isnull=False).count() == 5
    assert Job.objects.get().status == "done"


def start_rating_process(study: Study) -> "subprocess.Popen[bytes]":
    """Start the command as a separate process on this test's database file."""
    database = f"sqlite:///{connection.settings_dict['NAME']}"
    command = [sys.executable, "manage.py", "rate_with_model", study.slug, "--cast", "a-rater"]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    environment = {**os.environ, "DATABASE_URL": database, "WETBENCH_PACE": "0.05"}
    return subprocess.Popen(command, cwd=django_settings.BASE_DIR, env=environment, **quiet)


def wait_until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < end, "the condition was not met within 60 s"
        time.sleep(0.02)


# Visibility


def test_model_ratings_cannot_be_read_before_unblinding(study: Study, model: str) -> None:
    told = run_rating_command(study, model)
    for read in (model_raters.load_answers, model_raters.list_names):
        with pytest.raises(SealedError):
            read(study)
    assert not [word for word in ("lausible", "verdict:", "confidence") if word in told]
    log = " ".join(study_log_texts.list_event_texts(study, "machine"))
    assert "M1, a-rater: 5 items to rate, payload alone" in log and "5 of 5 items rated" in log
    assert "lausible" not in log
    said = model_raters.load_answers(mark_unblinded(study))
    assert model_raters.list_names(study) == {"M1": model_raters.MachineName("a-rater", "machine")}
    assert {code: answer.verdict for code, answer in said["M1"].items()} == dict(
        MachineRating.objects.values_list("item__code", "verdict")
    )


def test_model_rating_request_logs_the_user(study: Study) -> None:
    User.objects.create_user("ada")
    run_rating_command(study, "checker", "--by", "ada")
    assert [event.by and event.by.username for event in study.events.filter(kind="machine")] == ["ada", None]
    with pytest.raises(CommandError, match="no user 'bob'"):
        run_rating_command(study, "checker", "--by", "bob")


def test_model_rating_requested_twice_shares_one_job_and_one_rater(study: Study, model: str) -> None:
    first, second = (model_raters.request_ratings(study, model) for _ in range(2))
    assert first.job == second.job and first.rater == second.rater and Run.objects.filter(kind="ratings").count() == 1
    with pytest.raises(StudyError, match="still rating"):
        model_raters.request_ratings(study, model, retry=True)
    assert first.job and jobs.run_job_here(first.job).status == "done"
    third = model_raters.request_ratings(study, "checker")
    assert third.rater.label == "M2"


def test_model_rating_rows_need_the_same_number_of_queries_for_any_number_of_items(
    django_assert_num_queries: Any,
) -> None:
    for items in (3, 8):
        study = mark_unblinded(rating_room.create_open_study(items=items))
        model_raters.request_ratings(study, "checker")
        with django_assert_num_queries(2):
            model_raters.load_answers(study)


# Prompts


def test_prompt_sets_for_rating_and_for_simulation_are_not_interchangeable(
    study: Study, model: str, tmp_path: Path
) -> None:
    run_rating_command(study, model)
    shipped = prompt_store.get_rating_set()
    assert Run.objects.get(kind="ratings").setup["prompt_set"]["sha256"] == shipped.sha256
    assert [row.name for row in prompt_store.list_current()] == ["wetbench", "wetbench-protocol"]
    with pytest.raises(prompt_store.NoSuchPromptSet, match="is for rating; choose one for simulation"):
        prompt_store.get_simulation_set("wetbench-rating")
    with pytest.raises(CommandError, match="is for simulation; choose one for rating"):
        run_rating_command(rating_room.create_open_study(items=3), model, "--prompts", "wetbench")
    (tmp_path / "rating.repair.txt").write_text("Again: {problems}")
    row, read = prompt_store.import_folder(tmp_path, "ours")
    assert set(read.borrowed) == {"rating.item.txt", "rating.plausibility.txt", "rating.sufficiency.txt"}
    other = rating_room.create_open_study(items=3)
    run_rating_command(other, model, "--prompts", "ours")
    assert other.machine_raters.get().setup["prompt_set"]["sha256"] == row.sha256
    with pytest.raises(CommandError, match="must continue with them"):
        run_rating_command(study, model, "--prompts", "ours")


def test_model_rater_row_keys_are_valid_mark_keys() -> None:
    for payload in (*rating_room.build_transition_payloads(5), *rating_room.build_evidence_payloads(4)):
        keys = [row["key"] for row in item_view.list_payload_rows(payload)]
        assert len(keys) == len(set(keys)) and set(keys) <= set(list_mark_keys(payload)) and keys[-1] == "missing"
        unsure = {**payload, "lineage": False}
        if payload["kind"] == "transition":
            assert {row["key"] for row in item_view.list_payload_rows(unsure)} <= set(list_mark_keys(unsure))


def test_model_rating_worst_case_is_an_upper_bound(study: Study, model: str) -> None:
    made = model_raters.request_ratings(study, model)
    worst = machine_raters.estimate_max_cost(made.rater, study.items.all())
    assert worst and (worst.calls, worst.usual_calls) == (15, 5)  # five items with at most three turns each
    assert "at most 15 calls" in run_rating_command(study, model)
    totals = run_usage.sum_usage(Run.objects.get(kind="ratings"))
    assert 0 < totals.tokens < worst.tokens and worst.cost is not None and Decimal(0) < totals.cost < worst.cost
