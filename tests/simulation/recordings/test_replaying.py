"""A recorded run replays without a network, byte for byte."""

import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from simulation.models import Episode, Experiment, Run
from simulation.recordings import run_recordings
from simulation.runs import control, create
from tests.support import model_casts
from tests.support.model_server import Server
from tests.support.steps import run_to_end

pytestmark = pytest.mark.both_databases


@pytest.fixture
def recorded(caffeine: Experiment, model_server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A recorded run of two episodes with a fault and a repaired reply. Afterwards the server does not answer any more."""
    model_casts.create_cast(panel=("judge-two",))
    model_server.set_faults(
        {"fault": "server_500", "every": 5, "times": 2}, {"fault": "wrong_enum", "role": "transition", "times": 1}
    )
    run = create.create_episode_run([caffeine], "model_cast_server", 2, seed=4)
    while not create.get_progress(run).is_finished:
        Episode.objects.update(not_before=None)
        run_to_end(run)
    file = tmp_path / "run.jsonl"
    call_command("record_run", str(run.code), str(file))
    for name in model_server.get_environ():
        monkeypatch.delenv(name)
    return file


def test_replay_repeats_every_step_and_verdict_without_keys_or_network(recorded: Path) -> None:
    call_command("replay_run", str(recorded))
    first, again = Run.objects.order_by("pk")
    assert [e.status for e in again.episodes.order_by("seed")] == ["submitted", "submitted"]
    before = [list(e.transitions.values_list("step", flat=True)) for e in first.episodes.order_by("seed")]
    after = [list(e.transitions.values_list("step", flat=True)) for e in again.episodes.order_by("seed")]
    assert before == after and all(before)
    assert not again.episodes.filter(counts=True).exists(), "a replay is no attempt of its own"


@pytest.mark.one_database
def test_replay_reports_episode_and_step_of_an_altered_reply(recorded: Path) -> None:
    lines = recorded.read_text().splitlines()
    place = next(n for n, line in enumerate(lines) if n and json.loads(line)["key"]["role"] == "transition")
    altered = json.loads(lines[place])
    other = next(json.loads(line) for line in lines[1:] if json.loads(line)["key"]["role"] == "agent")
    lines[place] = json.dumps({**altered, "body": other["body"]})
    recorded.write_text("\n".join(lines) + "\n")
    with pytest.raises(CommandError, match="1 of 2 episodes differ"):
        call_command("replay_run", str(recorded))


@pytest.mark.one_database
def test_recording_has_no_keys_or_addresses(recorded: Path) -> None:
    assert "dummy-" not in recorded.read_text() and "127.0.0.1" not in recorded.read_text()


@pytest.mark.one_database
def test_replay_is_refused_if_the_experiment_differs(recorded: Path) -> None:
    Experiment.objects.update(sha256="1" * 64)
    with pytest.raises(CommandError, match="missing or differs"):
        call_command("replay_run", str(recorded))


def test_recording_of_a_rule_based_run_is_refused(caffeine: Experiment, tmp_path: Path) -> None:
    run = create.create_episode_run([caffeine], "offline", 1, seed=1)
    with pytest.raises(run_recordings.ReplayError, match="from their seed"):
        run_recordings.record_run(run, tmp_path / "x")


def test_replay_is_never_run_by_workers_with_their_own_keys(recorded: Path, model_server: Server) -> None:
    call_command("replay_run", str(recorded))
    again = Run.objects.latest("pk")
    assert again.replay
    Episode.objects.filter(run=again).update(status="queued", ended_at=None)
    asked = model_server.get_counters()["total"]["requests"]
    run_to_end(again)
    assert model_server.get_counters()["total"]["requests"] == asked


def test_replay_of_a_run_that_was_blocked_by_a_rejected_key_reaches_the_same_end(
    caffeine: Experiment, model_server: Server, tmp_path: Path
) -> None:
    model_casts.create_cast()
    model_server.set_faults({"fault": "unauthorized_401", "times": 1})
    run = create.create_episode_run([caffeine], "model_cast_server", 1, seed=4)
    run_to_end(run)
    control.retry_blocked(run)
    run_to_end(run)
    assert run.episodes.get().status == "submitted"
    call_command("record_run", str(run.code), str(tmp_path / "held.jsonl"))
    call_command("replay_run", str(tmp_path / "held.jsonl"))
