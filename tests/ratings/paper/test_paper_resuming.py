"""`make paper` blocked, stopped, killed and repeated: it continues within its limit, with the plan it started with."""

import json
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core.management import CommandError, call_command

from ratings.models import TRANSITION, Analysis, Study
from ratings.paper import comparison, replicate
from ratings.paper.plan import Plan, PlanFileError, load_plan, save_plan
from ratings.protocol import ProtocolError
from ratings.results.paper_values import PaperValuesError
from simulation.calls import run_usage
from simulation.casts import cast_availability, model_obstacles
from simulation.casts.run_config import SCRIPTED_ALONE
from simulation.engine import workers
from simulation.models import ModelCall, PaperPlan, Run, Twin
from simulation.runs import control, create
from tests.support.laboratory_rows import store_laboratory
from tests.support.model_server import Server

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
    store_laboratory()
    return Plan.model_validate(load_plan().model_dump() | TINY)


@pytest.fixture
def without_studies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the studies and the benchmark: they take time and call no model."""
    monkeypatch.setattr(replicate.Replicator, "_create_benchmark", lambda *_: None)
    monkeypatch.setattr(replicate.Replicator, "_run_study", lambda *_: None)


def run_replication(plan: Plan, max_cost: str) -> None:
    """Replicate by models, as far as the program can tell: the environment points to a scripted server."""
    replicate.Replicator(plan, False, lambda _: None, lambda _: lambda _: None, 1, Decimal(max_cost)).run_replication()


def test_replication_blocked_by_the_budget_continues_with_a_larger_limit(
    plan: Plan, model_server: Server, without_studies: None
) -> None:
    with pytest.raises(
        replicate.PaperError, match=r"2 of 2 are blocked .*MAX_COST=0.01 is used up.*larger MAX_COST to continue"
    ):
        run_replication(plan, "0.01")
    with pytest.raises(replicate.PaperError, match="MAX_COST=0 is used up"):
        run_replication(plan, "0")
    run_replication(plan, "100")
    runs = Run.objects.order_by("pk")
    assert [run.kind for run in runs] == ["episodes", "twins", "twins", "twins"]
    assert {status for run in runs for status in create.get_progress(run).by_status} == {"submitted", "done"}
    assert Twin.objects.count() == 3 * 2


def test_replication_blocked_by_a_key_continues_with_a_correct_key(
    plan: Plan, model_server: Server, without_studies: None
) -> None:
    model_server.set_faults("unauthorized_401")
    with pytest.raises(replicate.PaperError, match=r"are blocked .*Fix this and run `make paper` again") as caught:
        run_replication(plan, "100")
    assert "MAX_COST" not in str(caught.value)
    model_server.set_faults()
    run_replication(plan, "100")
    assert Run.objects.count() == 4


def test_replication_limit_counts_a_call_of_unknown_cost_at_its_worst_case(
    plan: Plan, model_server: Server, without_studies: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a reply that broke off in the first run: the cost reserved for it is not available to the second run."""
    played = replicate.Replicator._run_episodes

    def lose_costs(maker: replicate.Replicator, agent: str) -> Run:
        run = played(maker, agent)
        ModelCall.objects.filter(run=run, pk=run.calls.latest("pk").pk).update(cost=None, reserved_cost=Decimal(30))
        return run

    monkeypatch.setattr(replicate.Replicator, "_run_episodes", lose_costs)
    run_replication(plan, "40")
    first, second, *_ = Run.objects.order_by("pk")
    # The scripted replies, and so the number of calls, depend on the prompts: the calls cost about a dollar.
    assert run_usage.sum_usage(first).cost < 3 and run_usage.check_budget_counters(first).ledger_cost > 30
    assert second.max_cost == 40 - run_usage.check_budget_counters(first).ledger_cost


class StoppedError(Exception):
    """A person pressed Ctrl-C."""


def stop(_: Any) -> None:
    raise StoppedError


def test_worker_never_sends_a_scripted_run_to_the_providers(
    plan: Plan, model_server: Server, without_studies: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """The server that the environment leads to stands for the real providers. It must never be asked."""
    scripted = replicate.Replicator(plan, True, print, lambda _: stop, 1, None)
    with pytest.raises(StoppedError), replicate.scripted_replies(plan):
        scripted.run_replication()
    [run] = Run.objects.all()
    assert run.paused_at and run.setup["cast"]["scripted"]
    assert not workers.run_next_row(threading.Event()), "a paused run is nobody's"
    control.resume_run(run)  # as after kill -9, or by a person
    while workers.run_next_row(threading.Event()):
        pass
    assert {(row.status, row.reason) for row in run.episodes.all()} == {("blocked", "credentials")}
    assert {row.error for row in run.episodes.all()} == {SCRIPTED_ALONE}
    assert not ModelCall.objects.exists() and not model_server.get_requests()
    for order in (
        lambda: cast_availability.freeze_cast(run.cast),
        lambda: cast_availability.freeze_rater(run.cast),
        lambda: cast_availability.freeze_with_person(run.cast),
    ):
        with pytest.raises(model_obstacles.NotReadyError, match=SCRIPTED_ALONE):
            order()
    assert {line.why_not for line in cast_availability.list_casts() if line.name == run.cast} == {SCRIPTED_ALONE}
    with replicate.scripted_replies(plan):
        replicate.Replicator(plan, True, print, lambda _: lambda _: None, 1, None).run_replication()
    assert Run.objects.count() == 4 and not Run.objects.filter(paused_at__isnull=False).exists()
    assert Twin.objects.filter(status="done").count() == 3 * 2
    assert not model_server.get_requests()


def test_impossible_plan_is_refused_with_every_reason_before_any_run_starts(tmp_path: Path) -> None:
    path, wrong = tmp_path / "wrong.json", load_plan().model_dump() | TINY
    wrong |= {"agents": ["paper-gpt-4o", "paper-gpt-4o"], "twin_maker": "paper-gpt-4o"}
    wrong |= {"transitions": {"items": 3, "ratings_per_item": 2, "raters": 1}}
    wrong |= {"evidence": {"items": 3, "ratings_per_item": 1, "raters": 1}}
    path.write_text(json.dumps(wrong))
    with pytest.raises(PlanFileError) as caught:
        load_plan(path)
    assert str(caught.value).splitlines() == [
        f"{path}: agents: paper-gpt-4o more than once",
        f"{path}: twin_maker: paper-gpt-4o is also the first of agents, so its answers and its steps would be the same source",
        f"{path}: transitions: ratings_per_item (2) is larger than raters (1)",
        f"{path}: transitions.items: 3 is larger than sample (2)",
        f"{path}: evidence.items: 3 is larger than the 2 attempts of each agent (experiments 1, attempts 2)",
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"experiments": ["cafeine"]}, "There is no experiment cafeine"),
        ({"experiments": "all", "attempts": 1, "evidence": {"items": 99, "ratings_per_item": 1, "raters": 1}}, "items: 99 is"),
        ({"agents": ["paper-gpt-6"]}, "agents: there is no language-model cast 'paper-gpt-6'"),
        ({"twin_maker": "offline"}, "twin_maker: there is no language-model cast 'offline'"),
    ],
)  # fmt: skip
def test_plan_that_this_laboratory_cannot_run_is_refused_before_any_run_starts(
    plan: Plan, change: dict[str, Any], said: str
) -> None:
    with pytest.raises(replicate.PaperError, match=said):
        run_replication(replace_values(plan, **change), "100")
    assert not Run.objects.exists() and not PaperPlan.objects.exists()


def replace_values(plan: Plan, **changes: Any) -> Plan:
    return Plan.model_validate(plan.model_dump() | changes)


def test_replication_refuses_changes_of_the_plan_for_parts_that_exist(
    plan: Plan, model_server: Server, without_studies: None
) -> None:
    too_many = replace_values(plan, sample=50)
    with pytest.raises(
        replicate.PaperError, match=r"3 samples of 50 steps .* need 150 accepted steps, but paper-gpt-4o took"
    ):
        run_replication(too_many, "100")
    assert Run.objects.count() == 1, "neither another agent nor twins were ordered"
    for other in (replace_values(plan, attempts=3), replace_values(plan, agents=["paper-deepseek-r1"])):
        with pytest.raises(
            replicate.PaperError,
            match=r"started with another plan: (attempts was 2 and is now 3|agents was paper-gpt-4o and is)",
        ):
            run_replication(other, "100")
    run_replication(plan, "100")
    with pytest.raises(
        replicate.PaperError, match=r"another plan: sample was 2 and is now 3\. Continue with that plan"
    ):
        run_replication(replace_values(plan, sample=3), "100")
    run_replication(replace_values(plan, transitions={"items": 1, "ratings_per_item": 1, "raters": 1}), "100")
    Study.objects.create(
        slug="paper-transitions", name="As opened", kind=TRANSITION, protocol={}, seed=1, ratings_per_item=1
    )
    with pytest.raises(
        replicate.PaperError, match=r"another plan: transitions.items was 1 and is now 2; transitions.ratings"
    ):
        run_replication(plan, "100")
    assert Run.objects.count() == 4


@pytest.mark.parametrize("error", [ProtocolError(["items: too many"]), PaperValuesError(["a.json:1: items: too many"])])
def test_paper_command_reports_refusals_of_studies_and_paper_values(
    plan: Plan, tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_plan(plan, tmp_path / "plan.json")

    def refuse(_: Any) -> None:
        raise error

    monkeypatch.setattr(replicate.Replicator, "run_replication", refuse)
    with pytest.raises(CommandError, match="items: too many"):
        call_command("paper", plan=tmp_path / "plan.json", scripted=True, threads=1)


def test_scripted_replication_does_not_overwrite_the_file_of_a_replication_by_models(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save_plan(plan, tmp_path / "plan.json")
    monkeypatch.setattr(replicate.Replicator, "run_replication", lambda _: None)
    folder, found = Path(django_settings.VAR_DIR), comparison.find_results
    call_command("paper", plan=tmp_path / "plan.json", scripted=True)
    call_command("paper", plan=tmp_path / "plan.json", scripted=True)
    assert [path.name for path in folder.glob("*.json")] == ["paper.json"]
    assert "/paper/?replies=scripted\n" in capsys.readouterr().out
    (folder / "paper.json").write_text("by models")
    made = Analysis(key="made by models")
    monkeypatch.setattr(
        comparison,
        "find_results",
        lambda names: found(names) if names.scripted else found(names)._replace(benchmark=made),
    )
    call_command("paper", plan=tmp_path / "plan.json", scripted=True)
    assert (folder / "paper.json").read_text() == "by models"
    assert all(cell["reason"] for cell in json.loads((folder / "scripted-paper.json").read_text()))
    said = capsys.readouterr().out
    assert "paper.json has the replication by models and is not changed" in said
    assert f"Wrote {folder / 'scripted-paper.json'}" in said


def test_ctrl_c_ends_the_paper_command_with_one_line_on_how_to_continue(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save_plan(plan, tmp_path / "plan.json")

    def interrupt(_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(replicate.Replicator, "run_replication", interrupt)
    with pytest.raises(SystemExit) as caught:
        call_command("paper", plan=tmp_path / "plan.json", scripted=True)
    assert caught.value.code == 130
    assert capsys.readouterr().err == "Stopped. Run the same command to continue.\n"


def test_pool_too_small_for_a_study_suggests_fewer_items(plan: Plan) -> None:
    maker = replicate.Replicator(plan, False, print, lambda _: stop, 1, None)
    with pytest.raises(
        replicate.PaperError, match=r"paper-transitions: .*Reduce the items in the plan and run the same command again"
    ):
        maker._run_study(TRANSITION)
    assert not Study.objects.exists()
