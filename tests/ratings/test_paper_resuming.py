"""`make paper` held, stopped, killed and asked for again: it goes on, within its limit, with the plan it began with."""

import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings

from ratings.paper import making
from ratings.paper.plan import Plan, read_plan
from simulation import control, fixtures, queueing, roster, spending, workers
from simulation.models import ModelCall, Run, Twin
from simulation.scripted_server import Server
from simulation.setups import SCRIPTED_ALONE

pytestmark = pytest.mark.django_db(transaction=True)
KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY")
TINY: dict[str, Any] = {
    "agents": ["paper-gpt-4o"],
    "experiments": ["caffeine-hplc-analysis"],
    "attempts": 2,
    "sample": 2,
    "transitions": {"items": 2, "ratings_per_item": 2, "raters": 2},
    "evidence": {"items": 2, "ratings_per_item": 2, "raters": 2},
}


@pytest.fixture
def plan(settings: Any, tmp_path: Path) -> Plan:
    settings.VAR_DIR = tmp_path / "var"
    fixtures.load_lab(django_settings.FIXTURES_DIR)
    return Plan.model_validate(read_plan().model_dump() | TINY)


@pytest.fixture
def without_studies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only play: studies and benchmark take their time and ask no model."""
    monkeypatch.setattr(making.Maker, "_benchmark", lambda *_: None)
    monkeypatch.setattr(making.Maker, "_study", lambda *_: None)


def make(plan: Plan, max_cost: str) -> None:
    """Replicate by models, as far as the program knows: the environment leads to a scripted server."""
    making.Maker(plan, False, lambda _: None, lambda _: lambda _: None, 1, Decimal(max_cost)).make()


def test_what_was_held_for_the_budget_goes_on_with_a_larger_limit(
    plan: Plan, model_server: Server, without_studies: None
) -> None:
    with pytest.raises(making.PaperError, match=r"2 of 2 are held .*MAX_COST=0.01 is used up.*larger MAX_COST goes on"):
        make(plan, "0.01")
    with pytest.raises(making.PaperError, match="MAX_COST=0 is used up"):
        make(plan, "0")
    make(plan, "100")
    runs = Run.objects.order_by("pk")
    assert [run.kind for run in runs] == ["episodes", "twins", "twins", "twins"]
    assert {status for run in runs for status in queueing.progress(run).by_status} == {"submitted", "done"}
    assert Twin.objects.count() == 3 * 2


def test_what_was_held_for_a_key_goes_on_when_the_key_is_right(
    plan: Plan, model_server: Server, without_studies: None
) -> None:
    model_server.faults("unauthorized_401")
    with pytest.raises(making.PaperError, match=r"are held .*Mend it and run `make paper` again") as caught:
        make(plan, "100")
    assert "MAX_COST" not in str(caught.value)
    model_server.faults()
    make(plan, "100")
    assert Run.objects.count() == 4


def test_a_call_of_unknown_cost_counts_at_its_worst_case_against_the_limit_of_all_runs(
    plan: Plan, model_server: Server, without_studies: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an answer that broke off in the first run: what was reserved for it is not there for the second."""
    played = making.Maker._episodes

    def lose_costs(maker: making.Maker, agent: str) -> Run:
        run = played(maker, agent)
        ModelCall.objects.filter(run=run, pk=run.calls.latest("pk").pk).update(cost=None, reserved_cost=Decimal(30))
        return run

    monkeypatch.setattr(making.Maker, "_episodes", lose_costs)
    make(plan, "40")
    first, second, *_ = Run.objects.order_by("pk")
    assert spending.totals(first).cost < 1 and spending.verify(first).ledger_cost > 30
    assert second.max_cost == 40 - spending.verify(first).ledger_cost


class StoppedError(Exception):
    """Whoever started it pressed Ctrl-C."""


def stop(_: Any) -> None:
    raise StoppedError


def test_no_worker_sends_a_scripted_run_to_the_providers(
    plan: Plan, model_server: Server, without_studies: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """The server that the environment leads to stands for the real providers. It must never be asked."""
    scripted = making.Maker(plan, True, print, lambda _: stop, 1, None)
    with pytest.raises(StoppedError), making.scripted_replies(plan):
        scripted.make()
    [run] = Run.objects.all()
    assert run.paused_at and run.setup["cast"]["scripted"]
    assert not workers.play_next(threading.Event()), "a paused run is nobody's"
    control.resume_run(run)  # as after kill -9, or by a person
    while workers.play_next(threading.Event()):
        pass
    assert {(row.status, row.reason) for row in run.episodes.all()} == {("blocked", "credentials")}
    assert {row.error for row in run.episodes.all()} == {SCRIPTED_ALONE}
    assert not ModelCall.objects.exists() and not model_server.requests()
    for order in (
        lambda: roster.resolve(run.cast),
        lambda: roster.rater(run.cast),
        lambda: roster.with_person(run.cast),
    ):
        with pytest.raises(roster.NotReadyError, match=SCRIPTED_ALONE):
            order()
    assert {line.why_not for line in roster.casts() if line.name == run.cast} == {SCRIPTED_ALONE}
    with making.scripted_replies(plan):
        making.Maker(plan, True, print, lambda _: lambda _: None, 1, None).make()
    assert Run.objects.count() == 4 and not Run.objects.filter(paused_at__isnull=False).exists()
    assert Twin.objects.filter(status="done").count() == 3 * 2
    assert not model_server.requests()
