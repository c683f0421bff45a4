"""Machines as raters: the frozen payload and no more, every call once, and nothing to see before unblinding."""

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

from ratings.blinding import machine_rows
from ratings.blinding.marking import mark_keys
from ratings.models import EVIDENCE, MachineRater, MachineRating, Study
from ratings.raters.machines import machine_work, machines
from ratings.studies import SealedError, StudyError
from ratings.studies.progress import state_digest
from simulation.calls import spending
from simulation.casts import prompting
from simulation.jobs import jobs
from simulation.llm.prompts.framing import framed
from simulation.models import Job, ModelCall, Run
from simulation.runs import control
from simulation.scripted_server import Server, running
from tests.support import logged, rating_room, speakers
from tests.support.embedded import play_all
from tests.support.steps import race

pytestmark = pytest.mark.django_db


@pytest.fixture
def study(db: None) -> Study:
    """Five transitions, two seats."""
    return rating_room.open_study(items=5)


@pytest.fixture
def model(db: None, model_server: Server) -> str:
    return speakers.model("a-rater").name


def rate(study: Study, cast: str, *options: str) -> str:
    out = StringIO()
    call_command("rate_with_model", study.slug, "--cast", cast, *options, stdout=out, stderr=StringIO())
    return out.getvalue()


def requests(server: Server) -> int:
    return int(server.counters()["total"]["requests"])


def unblinded(study: Study) -> Study:
    Study.objects.filter(pk=study.pk).update(status="unblinded", unblinded_at=timezone.now())
    study.refresh_from_db()
    return study


# A model


def test_a_model_rates_every_item_once_beside_the_people_and_not_among_them(
    study: Study, model: str, model_server: Server
) -> None:
    told = rate(study, model)
    assert "M1, a-rater: 5 items to rate, payload alone" in told and "5 of 5 items rated" in told
    assert "5 calls" in told and requests(model_server) == 5
    rater = MachineRater.objects.get()
    assert (rater.label, rater.name, rater.ratings.count()) == ("M1", "a-rater", 5)
    assert study.raters.count() == 2 and not study.raters.filter(label="M1").exists()
    for rating in rater.ratings.select_related("item"):
        assert rating.verdict is not None and 1 <= (rating.confidence or 0) <= 5
        assert rating.payload_sha256 == rating.item.payload_sha256
        assert set(rating.marks) <= set(mark_keys(rating.item.payload)) and bool(rating.marks) == (not rating.verdict)
    calls = ModelCall.objects.order_by("number")
    assert [(call.number, call.role, call.purpose, call.state) for call in calls] == [
        (place, "rating", "rate", "answered") for place in range(5)
    ]
    assert {call.job_id for call in calls} == {Job.objects.get().pk} and rater.run_id == calls[0].run_id
    assert requests(model_server) == 5 and "no items left to rate" in rate(study, model)
    assert requests(model_server) == 5


def test_what_is_sent_is_the_payload_of_that_item_and_neither_a_code_nor_a_source(
    study: Study, model: str, model_server: Server
) -> None:
    rate(study, model)
    for item, (system, asked) in zip(study.items.order_by("pk"), sent(model_server), strict=True):
        assert study.question in system and framed("CONTEXT", "not shown") in asked
        for other in study.items.all():
            assert (framed("ITEM", other.payload) in asked) == (other == item)
            assert str(other.code) not in asked and other.payload_sha256 not in asked
        assert not [word for word in ("offline", "perturb", "SECRET", "MAT-", study.slug) if word in system + asked]


def sent(server: Server) -> list[list[str]]:
    """The texts of each request in order: instructions, then the item."""
    return [[message["content"] for message in request["body"]["messages"]] for request in server.requests()]


def test_the_context_is_shown_where_every_rater_sees_it_or_where_an_order_asks_for_it_and_an_arm_has_it(
    model: str, model_server: Server
) -> None:
    always, mixed, never = (
        rating_room.open_study(items=3, display={"context": context}) for context in ([True], [False, True], [False])
    )
    assert "payload and context" in rate(always, model)
    assert "payload alone" in rate(mixed, model)
    assert ["Find out how much caffeine" in asked for _, asked in sent(model_server)] == [True] * 3 + [False] * 3
    with pytest.raises(CommandError, match="must continue with it"):
        rate(mixed, model, "--context", "yes")
    with pytest.raises(CommandError, match="sees a context"):
        rate(never, model, "--context", "yes")


def test_records_are_rated_in_their_own_words(model: str, model_server: Server) -> None:
    study = rating_room.open_study(EVIDENCE, items=3)
    rate(study, model)
    assert MachineRating.objects.filter(verdict__isnull=False).count() == 3
    assert all("not sufficient" in str(request["body"]) for request in model_server.requests())
    with pytest.raises(CommandError, match="rates single steps"):
        rate(study, "checker")


def test_a_cast_rates_with_its_classifier_and_one_of_rules_with_nobody(study: Study, model_server: Server) -> None:
    speakers.cast("talkers")
    rate(study, "talkers")
    assert MachineRater.objects.get().name == "a-judge"
    assert set(ModelCall.objects.values_list("model_name", flat=True)) == {"a-judge"}
    speakers.cast("half", evidence_classifier={"plays": "offline/checklist"})
    with pytest.raises(CommandError, match="judges by rules"):
        rate(study, "half")
    with pytest.raises(CommandError, match="called checker"):
        rate(study, "offline")
    with pytest.raises(CommandError, match=r"no model and no cast 'nobody'.*a-judge"):
        rate(study, "nobody")


def test_without_a_key_nothing_is_ordered(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    speakers.model("a-rater")
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(CommandError, match="OPENAI_API_KEY") as caught:
        rate(study, "a-rater")
    assert caught.value.returncode == 2
    assert not MachineRater.objects.exists() and not Run.objects.filter(kind="ratings").exists()


def test_a_draft_has_nothing_to_rate(study: Study, model: str) -> None:
    Study.objects.update(status="draft")
    with pytest.raises(CommandError, match="is a draft"):
        rate(study, model)


# What goes wrong


def test_an_item_that_fails_is_kept_as_failed_and_asked_again_only_where_somebody_says_so(
    study: Study, model: str, model_server: Server
) -> None:
    model_server.faults({"fault": "refusal", "times": 1})
    told = rate(study, model)
    assert "4 of 5 items rated" in told and "1 without a verdict: refused; use --retry-failed to retry" in told
    failed = MachineRating.objects.get(verdict=None)
    assert failed.failed == "refused" and failed.error
    model_server.reset()
    assert "no items left" in rate(study, model) and requests(model_server) == 0
    assert "5 of 5 items rated" in rate(study, model, "--retry-failed")
    assert requests(model_server) == 1 and MachineRating.objects.filter(failed="").count() == 5


@pytest.mark.parametrize("fault", ["bad_request_400", "server_500"])
def test_one_item_that_the_provider_cannot_take_keeps_no_machine_from_the_others(
    study: Study, model: str, model_server: Server, settings: Any, fault: str
) -> None:
    settings.RETRY_ATTEMPTS = 2
    model_server.faults(refuses(study, 1, fault))
    told = rate(study, model)
    reason = {"bad_request_400": "bad request", "server_500": "provider unavailable"}[fault]
    assert "4 of 5 items rated" in told and f"1 without a verdict: {reason}; use --retry-failed to retry" in told
    model_server.reset()
    assert "no items left" in rate(study, model)
    assert "5 of 5 items rated" in rate(study, model, "--retry-failed") and requests(model_server) == 1


def test_a_provider_that_goes_away_is_held_against_no_item(
    study: Study, model: str, model_server: Server, settings: Any
) -> None:
    settings.RETRY_ATTEMPTS = 2
    model_server.faults(*(refuses(study, place, "server_500") for place in range(1, 5)))
    with pytest.raises(CommandError, match="status page"):
        rate(study, model)
    assert [rating.failed for rating in MachineRating.objects.all()] == [""]
    assert requests(model_server) == 1 + 3 * 2  # the first item; three more, twice each
    model_server.reset()
    assert "5 of 5 items rated" in rate(study, model) and requests(model_server) == 4


def refuses(study: Study, place: int, fault: str) -> dict[str, str]:
    """The rule by which the provider fails at this item and at no other."""
    item = study.items.order_by("pk")[place]
    return {"fault": fault, "contains": framed("ITEM", item.payload).split("\n")[0], "role": "rater"}


def test_an_answer_is_not_paid_again_because_its_repair_met_a_provider_that_was_away(
    model: str, model_server: Server, settings: Any
) -> None:
    settings.RETRY_ATTEMPTS = 2
    study = rating_room.open_study(items=3)
    repair = {"fault": "server_500", "contains": "could not be used"}
    model_server.faults(repair, {"fault": "missing_field", "times": 3, "role": "rater"})
    with pytest.raises(CommandError, match="status page"):
        rate(study, model)
    answered = ModelCall.objects.filter(state="answered", turn=0)
    assert answered.count() == 3 and not MachineRating.objects.exists()
    model_server.reset()
    assert "3 of 3 items rated" in rate(study, model)
    assert answered.count() == 3 and requests(model_server) == 3  # the repairs alone


def test_what_settles_an_item_is_not_retried_and_no_clock_says_what_is(study: Study, model: str) -> None:
    rate(study, model)
    first, second, third = MachineRating.objects.order_by("pk")[:3]
    for rating, failed in ((first, machines.CANNOT_JUDGE), (second, machines.UNDECIDABLE), (third, "no_verdict")):
        later = timezone.now() + timedelta(hours=1)  # by the clock of another host
        MachineRating.objects.filter(pk=rating.pk).update(verdict=None, confidence=None, failed=failed, at=later)
    before = state_digest.mark(study)
    assert machines.order(study, model, retry=True).owed == 1
    play_all()
    assert list(MachineRating.objects.exclude(failed="").order_by("pk")) == [first, second]
    assert state_digest.mark(study) != before


def test_an_answer_that_stays_unreadable_is_asked_anew_by_a_retry_and_not_read_from_the_ledger(
    study: Study, model: str, model_server: Server
) -> None:
    model_server.faults({"fault": "missing_field", "times": 2, "role": "rater"})
    assert "1 without a verdict: no verdict" in rate(study, model)
    assert ModelCall.objects.filter(purpose="repair").count() == 1
    before = ModelCall.objects.count()
    rate(study, model, "--retry-failed")
    assert ModelCall.objects.count() == before + 1 and not MachineRating.objects.exclude(failed="").exists()


def test_the_budget_holds_and_a_larger_one_goes_on_without_paying_twice(
    study: Study, model: str, model_server: Server
) -> None:
    # A call's worst case: 16,000 tokens out, and a prompt of some 5,000 bytes; it uses a few hundred of them.
    with pytest.raises(CommandError, match="larger budget"):
        rate(study, model, "--max-tokens", "22000")
    done = MachineRating.objects.count()
    assert 0 < done < 5 and requests(model_server) == done
    run = Run.objects.get(kind="ratings")
    assert run.held_tokens <= 22000
    assert "5 of 5 items rated" in rate(study, model, "--max-tokens", "200000")
    assert requests(model_server) == 5 and Run.objects.get(kind="ratings").max_tokens == 200_000


def test_a_limit_that_is_not_named_again_stays_as_it_was(study: Study, model: str) -> None:
    with pytest.raises(CommandError, match="larger budget"):
        rate(study, model, "--max-tokens", "22000", "--max-cost", "5", "--max-minutes", "600")
    assert "5 of 5 items rated" in rate(study, model, "--max-tokens", "200000")
    run = Run.objects.get(kind="ratings")
    assert (run.max_tokens, run.max_cost, run.max_seconds) == (200_000, Decimal(5), 36_000)  # 600 minutes


def test_a_budget_in_money_needs_a_price(study: Study, model_server: Server) -> None:
    speakers.model("no-price", priced=False)
    with pytest.raises(CommandError, match="needs prices"):
        rate(study, "no-price", "--max-cost", "1")
    assert not MachineRater.objects.exists()


def test_a_key_that_is_not_accepted_ends_the_job_and_the_next_order_goes_on(
    study: Study, model: str, model_server: Server
) -> None:
    model_server.faults({"fault": "unauthorized_401", "times": 1})
    with pytest.raises(CommandError, match="Set the key"):
        rate(study, model)
    assert not MachineRating.objects.exists(), "an item is not to blame for a key"
    assert "5 of 5 items rated" in rate(study, model)


def test_a_retry_after_a_key_that_was_not_accepted_is_one_job_and_asks_nothing_twice(
    study: Study, model: str, model_server: Server
) -> None:
    model_server.faults({"fault": "unauthorized_401", "times": 1})
    with pytest.raises(CommandError, match="Set the key"):
        rate(study, model)
    made = machines.order(study, model, retry=True)
    assert list(Job.objects.filter(status__in=Job.RUNNABLE)) == [made.job]
    play_all()
    # Five items, and the call that the key was not good for.
    assert requests(model_server) == 6 and MachineRating.objects.filter(failed="").count() == 5


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
def test_four_retries_at_once_are_one_job(model_server: Server) -> None:
    study, model = rating_room.open_study(items=5), speakers.model("a-rater").name
    model_server.faults({"fault": "refusal", "times": 2})
    rate(study, model)
    made = race(lambda: machines.order(study, model, retry=True).job, 4)
    assert set(made) == set(Job.objects.filter(status__in=Job.RUNNABLE)) and len(set(made)) == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
def test_an_order_and_its_run_tried_again_at_once_are_one_job(model_server: Server) -> None:
    study, model = rating_room.open_study(items=5), speakers.model("a-rater").name
    model_server.faults({"fault": "unauthorized_401", "times": 1})
    with pytest.raises(CommandError, match="Set the key"):
        rate(study, model)
    run = Run.objects.get(kind="ratings")
    acts: Iterator[Callable[[], object]] = iter(
        2 * [lambda: machines.order(study, model, retry=True), lambda: control.try_again(run)]
    )
    race(lambda: next(acts)(), 4)
    assert Job.objects.filter(status__in=Job.RUNNABLE).count() == 1


def test_what_was_answered_before_its_worker_died_is_read_from_the_ledger(
    study: Study, model: str, model_server: Server
) -> None:
    rate(study, model)
    last = MachineRating.objects.latest("pk")
    said = (last.verdict, last.confidence, last.marks, last.reasoning)
    # As a kill leaves it between the answer and its rating: the job under a lease that ran out.
    last.delete()
    past = timezone.now() - timedelta(minutes=5)
    Job.objects.update(status="running", lease_until=past, ended_at=None, begun=True, result={})
    rate(study, model)
    again = MachineRating.objects.latest("pk")
    assert requests(model_server) == 5 and (again.verdict, again.confidence, again.marks, again.reasoning) == said
    # And as three kills leave it: the job has failed, and another one goes on from it.
    again.delete()
    Job.objects.update(status="failed", reason="worker_lost", error="worker lost")
    rate(study, model)
    assert requests(model_server) == 5 and Job.objects.count() == 2 and MachineRating.objects.count() == 5


@pytest.mark.django_db(transaction=True)
def test_a_process_killed_between_a_call_and_its_answer_costs_that_call_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    study = rating_room.open_study(items=5)
    speakers.model("a-rater")
    with running(latency=0.6) as server:
        for name, value in server.environ().items():
            monkeypatch.setenv(name, value)
        child = _command(study)
        _until(lambda: requests(server) >= 3)  # counted as they come in: the third has no answer yet
        child.kill()
        child.wait()
        assert MachineRating.objects.count() == 2
        assert ModelCall.objects.filter(state="started").count() == 1
        rate(study, "a-rater")
        states = sorted(ModelCall.objects.values_list("state", flat=True))
        assert states == ["answered"] * 5 + ["lost"] and requests(server) == 6
    assert MachineRating.objects.filter(verdict__isnull=False).count() == 5
    assert Job.objects.get().status == "done"


def _command(study: Study) -> "subprocess.Popen[bytes]":
    """The command as a process of its own, on this test's database file."""
    database = f"sqlite:///{connection.settings_dict['NAME']}"
    command = [sys.executable, "manage.py", "rate_with_model", study.slug, "--cast", "a-rater"]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    environment = {**os.environ, "DATABASE_URL": database, "WETBENCH_PACE": "0.05"}
    return subprocess.Popen(command, cwd=django_settings.BASE_DIR, env=environment, **quiet)


def _until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.02)


# What is seen of it


def test_nothing_of_what_machines_said_can_be_read_before_unblinding(study: Study, model: str) -> None:
    told = rate(study, model)
    for read in (machines.rows, machines.names):
        with pytest.raises(SealedError):
            read(study)
    assert not [word for word in ("lausible", "verdict:", "confidence") if word in told]
    log = " ".join(logged.words(study, "machine"))
    assert "M1, a-rater: 5 items to rate, payload alone" in log and "5 of 5 items rated" in log
    assert "lausible" not in log
    said = machines.rows(unblinded(study))
    assert machines.names(study) == {"M1": machines.Named("a-rater", "machine")}
    assert {code: answer.verdict for code, answer in said["M1"].items()} == dict(
        MachineRating.objects.values_list("item__code", "verdict")
    )


def test_who_asked_is_in_the_log(study: Study) -> None:
    User.objects.create_user("ada")
    rate(study, "checker", "--by", "ada")
    assert [event.by and event.by.username for event in study.events.filter(kind="machine")] == ["ada", None]
    with pytest.raises(CommandError, match="no user 'bob'"):
        rate(study, "checker", "--by", "bob")


def test_two_orders_share_one_job_and_one_rater(study: Study, model: str) -> None:
    first, second = (machines.order(study, model) for _ in range(2))
    assert first.job == second.job and first.rater == second.rater and Run.objects.filter(kind="ratings").count() == 1
    with pytest.raises(StudyError, match="still rating"):
        machines.order(study, model, retry=True)
    assert first.job and jobs.play_here(first.job).status == "done"
    third = machines.order(study, "checker")
    assert third.rater.label == "M2"


def test_the_number_of_queries_does_not_grow_with_the_items(django_assert_num_queries: Any) -> None:
    for items in (3, 8):
        study = unblinded(rating_room.open_study(items=items))
        machines.order(study, "checker")
        with django_assert_num_queries(2):
            machines.rows(study)


# Prompts


def test_the_sets_of_raters_are_no_choice_for_players_nor_the_other_way(
    study: Study, model: str, tmp_path: Path
) -> None:
    rate(study, model)
    shipped = prompting.stored(prompting.BUILT_IN_RATING)
    assert Run.objects.get(kind="ratings").setup["prompt_set"]["sha256"] == shipped.sha256
    assert [row.name for row in prompting.current()] == ["wetbench"]
    with pytest.raises(prompting.NoSuchPromptSet, match="how to rate; choose one that tells how to play"):
        prompting.for_play("wetbench-rating")
    with pytest.raises(CommandError, match="how to play; choose one that tells how to rate"):
        rate(rating_room.open_study(items=3), model, "--prompts", "wetbench")
    (tmp_path / "rating.repair.txt").write_text("Again: {problems}")
    row, read = prompting.import_folder(tmp_path, "ours")
    assert set(read.borrowed) == {"rating.item.txt", "rating.plausibility.txt", "rating.sufficiency.txt"}
    other = rating_room.open_study(items=3)
    rate(other, model, "--prompts", "ours")
    assert other.machine_raters.get().setup["prompt_set"]["sha256"] == row.sha256
    with pytest.raises(CommandError, match="must continue with them"):
        rate(study, model, "--prompts", "ours")


def test_every_row_that_is_told_has_a_key_that_a_page_has() -> None:
    for payload in (*rating_room.transition_payloads(5), *rating_room.evidence_payloads(4)):
        keys = [row["key"] for row in machine_rows.rows(payload)]
        assert len(keys) == len(set(keys)) and set(keys) <= set(mark_keys(payload)) and keys[-1] == "missing"
        unsure = {**payload, "lineage": False}
        if payload["kind"] == "transition":
            assert {row["key"] for row in machine_rows.rows(unsure)} <= set(mark_keys(unsure))


def test_the_worst_case_is_a_bound(study: Study, model: str) -> None:
    made = machines.order(study, model)
    worst = machine_work.worst_case(made.rater, study.items.all())
    assert worst and (worst.calls, worst.usual_calls) == (15, 5)  # five items, at most three turns each
    assert "at most 15 calls" in rate(study, model)
    totals = spending.totals(Run.objects.get(kind="ratings"))
    assert 0 < totals.tokens < worst.tokens and worst.cost is not None and Decimal(0) < totals.cost < worst.cost
