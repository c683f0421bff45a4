"""Units of code episodes: what is committed, and what happens to late, lost, failing and missing sandboxes and at limits."""

import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from threading import Event

import pytest
from django.db import connection
from django.utils import timezone

from simulation import leases
from simulation.code_runs import code_units, sandboxes
from simulation.code_runs.conditions import Conditions
from simulation.engine import notifications, workers
from simulation.models import CodeEpisode, CodeStep, ReplicationTask, SandboxRun
from simulation.replication import episode_rules
from simulation.replication.sandbox.base import SandboxFault, SandboxResult, SandboxUnavailable
from simulation.replication.values import CodeSituation, ToolCall, ToolFormatError
from simulation.runs import control
from tests.support import code_episodes, embedded_worker
from tests.support.scripted_sandbox import ScriptedSandbox, build_result

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
RUN = ToolCall("run_command", {"command": "python run.py e1"})
Install = Callable[[Callable[[Event], SandboxResult]], ScriptedSandbox]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return a function that makes a scripted sandbox the one of this process."""

    def install_sandbox(act: Callable[[Event], SandboxResult]) -> ScriptedSandbox:
        sandbox = ScriptedSandbox(act)
        monkeypatch.setattr(sandboxes, "get_sandbox", lambda: sandbox)
        return sandbox

    return install_sandbox


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[[Sequence[ToolCall | ToolFormatError]], list[CodeSituation]]:
    """Return a function that makes these replies those of the agent, by number of the step, and returns the situations it saw."""

    def play_replies(replies: Sequence[ToolCall | ToolFormatError]) -> list[CodeSituation]:
        seen: list[CodeSituation] = []

        class Agent:
            def choose_tool(self, situation: CodeSituation) -> ToolCall:
                seen.append(situation)
                reply = replies[len(situation.history)]
                if isinstance(reply, ToolFormatError):
                    raise reply
                return reply

        monkeypatch.setattr(code_units.code_casting, "build_coding_agent", lambda *given: Agent())
        return seen

    return play_replies


def create_waiting_for_sandbox(**fields: object) -> CodeEpisode:
    return code_episodes.create_code_episode(phase="sandbox", pending={"call": RUN.to_json()}, **fields)


def run_unit(episode: CodeEpisode) -> CodeEpisode:
    embedded_worker.run_one_unit("code", episode.code)
    return CodeEpisode.objects.get(pk=episode.pk)


def list_states(episode: CodeEpisode) -> list[str]:
    return list(episode.sandbox_runs.order_by("pk").values_list("state", flat=True))


def test_sandbox_result_is_committed_with_its_step_and_workspace(install: Install) -> None:
    sandbox = install(lambda stop: build_result("3\x00\ud800", files={"out.txt": b"3", "TASK.md": b"# Task\n"}))
    episode = run_unit(create_waiting_for_sandbox())
    step, run = episode.steps.get(), episode.sandbox_runs.get()
    assert (step.number, step.tool, step.outcome, step.tree_before_id) == (1, "run_command", "done", episode.initial_id)
    assert (episode.phase, episode.next_number, episode.present_id) == ("agent", 2, step.tree_after_id)
    assert episode.present.entries[0][0] == "TASK.md" and episode.present.files == 2
    assert (episode.sandbox_seconds, episode.pending) == (0.5, None)
    assert (run.state, run.exit, run.seconds, run.command) == ("done", 0, 0.5, "python run.py e1")
    assert "\x00" not in step.observation and sandbox.limits[0].seconds == 120


def test_workspace_beyond_the_storage_of_an_episode_is_not_stored_and_its_agent_reads_why(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(episode_rules, "MAX_STORED_BYTES", 2**20)
    install(lambda stop: build_result("written", files={"random.bin": bytes(2**20 + 1)}))
    episode = run_unit(create_waiting_for_sandbox())
    assert episode.present_id == episode.initial_id and episode.next_number == 2
    observation = episode.steps.get().observation
    assert observation.startswith("the workspace is as it was before: all workspaces of an episode may have 1 MiB")
    assert observation.endswith("written")


def test_late_sandbox_result_is_fenced_and_changes_nothing(install: Install) -> None:
    episode = create_waiting_for_sandbox()

    def be_overtaken(stop: Event) -> SandboxResult:
        CodeEpisode.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
        assert leases.claim_row(CodeEpisode, episode.code) is not None
        return build_result(files={})

    install(be_overtaken)
    after = run_unit(episode)
    assert list_states(after) == ["fenced"] and not after.steps.exists()
    assert (after.phase, after.present_id, after.sandbox_seconds, after.fence) == ("sandbox", episode.initial_id, 0, 2)


def test_sandbox_of_a_dead_worker_is_lost_and_runs_again_once(install: Install) -> None:
    install(lambda stop: build_result())
    episode = create_waiting_for_sandbox(
        fence=1, status="running", lease_owner="gone:1:x", lease_until=timezone.now() - timedelta(seconds=1)
    )
    SandboxRun.objects.create(
        episode=episode, number=1, purpose="tool", fence=1, backend="x", tree_in=episode.present, command_sha256="0"
    )
    after = run_unit(episode)
    assert list_states(after) == ["lost", "done"]
    assert list(after.steps.values_list("number", flat=True)) == [1]


def test_sweep_marks_sandboxes_of_released_episodes_as_lost() -> None:
    episode = create_waiting_for_sandbox(fence=2)
    for fence in (1, 2):
        SandboxRun.objects.create(
            episode=episode, number=1, purpose="tool", fence=fence, backend="x", tree_in=episode.present,
            command_sha256="0",
        )  # fmt: skip
    CodeEpisode.objects.update(lease_until=timezone.now() + timedelta(seconds=60))
    assert sandboxes.mark_lost_sandboxes() == 1
    assert list_states(episode) == ["lost", "started"]


def test_sandbox_fault_waits_three_times_and_never_counts_as_a_step(install: Install) -> None:
    def fail(stop: Event) -> SandboxResult:
        raise SandboxFault("bwrap: No such device")

    install(fail)
    episode = create_waiting_for_sandbox()
    for fault in (1, 2, 3):
        episode = run_unit(episode)
        assert (episode.status, episode.reason, episode.sandbox_faults) == ("waiting", "sandbox_fault", fault)
        CodeEpisode.objects.update(not_before=None)
    episode = run_unit(episode)
    assert (episode.status, episode.reason) == ("failed", "sandbox_fault") and "4 times in a row" in episode.error
    assert list_states(episode) == ["fault"] * 4 and not episode.steps.exists()


def test_episode_is_blocked_without_a_sandbox_and_continues_when_there_is_one(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise SandboxUnavailable("install bubblewrap")

    monkeypatch.setattr(sandboxes, "get_sandbox", refuse)
    episode = run_unit(create_waiting_for_sandbox())
    assert (episode.status, episode.reason, episode.error) == ("blocked", "no_sandbox", "install bubblewrap")
    install(lambda stop: build_result())
    assert control.retry_blocked(episode.run) == 1
    assert run_unit(episode).steps.count() == 1


def test_episode_waits_while_all_slots_are_taken(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install(lambda stop: build_result())
    monkeypatch.setenv("WETBENCH_SANDBOXES", "1")
    monkeypatch.setattr(sandboxes, "_SLOT_SECONDS", 0)
    episode = create_waiting_for_sandbox()
    with sandboxes._wait_for_slot() as is_free:
        assert is_free
        episode = run_unit(episode)
        assert (episode.status, episode.reason) == ("waiting", "no_sandbox_slot") and list_states(episode) == []
    CodeEpisode.objects.update(not_before=None)
    assert run_unit(episode).steps.count() == 1


@pytest.mark.one_database
@pytest.mark.django_db(transaction=True)
def test_stop_ends_a_sandbox_under_way_within_two_seconds(install: Install) -> None:
    episode = create_waiting_for_sandbox()

    def wait_for_stop(stop: Event) -> SandboxResult:
        def request() -> None:
            control.stop_code_episode(episode)
            connection.close()

        threading.Thread(target=request).start()
        began = time.monotonic()
        assert stop.wait(10)
        assert time.monotonic() - began < 2
        return build_result(killed="stop", exit=None)

    install(wait_for_stop)
    after = run_unit(episode)
    assert list_states(after) == ["stopped"] and not after.steps.exists()
    assert run_unit(after).status == "cancelled"


def test_tool_on_files_alone_is_one_unit(play: Callable[..., list[CodeSituation]]) -> None:
    play([ToolCall("write_file", {"path": "notes.txt", "text": "add\n"}, "think\x00")])
    episode = run_unit(code_episodes.create_code_episode())
    step = episode.steps.get()
    assert (step.tool, step.outcome, step.request["note"]) == ("write_file", "done", "think\ufffd")
    assert dict(episode.present.entries).keys() >= {"notes.txt", "TASK.md"}


def test_refused_tool_is_a_step_that_changes_nothing(play: Callable[..., list[CodeSituation]]) -> None:
    play([ToolCall("delete_everything", {"path": "\ud800"})])
    episode = run_unit(code_episodes.create_code_episode())
    step = episode.steps.get()
    assert (step.outcome, step.refused, episode.present_id) == ("refused", True, episode.initial_id)


def test_third_unreadable_reply_in_a_row_ends_the_episode(play: Callable[..., list[CodeSituation]]) -> None:
    unreadable = ToolFormatError(["no tool"])
    play([unreadable, ToolCall("list_files"), unreadable, unreadable, unreadable])
    episode = code_episodes.create_code_episode()
    for _ in range(5):
        episode = run_unit(episode)
    assert (episode.phase, episode.ending, episode.status) == ("extract", "unreadable_out", "running")
    assert list(episode.steps.values_list("outcome", flat=True)) == [
        "unreadable", "done", "unreadable", "unreadable", "unreadable",
    ]  # fmt: skip


def test_last_turn_follows_the_last_step_and_allows_only_an_ending(play: Callable[..., list[CodeSituation]]) -> None:
    conditions = Conditions(steps=1)
    seen = play([ToolCall("list_files"), ToolCall("list_files")])
    episode = code_episodes.create_code_episode(conditions=conditions.to_json(), conditions_key=conditions.key)
    episode = run_unit(run_unit(episode))
    assert [(one.left.steps, one.last_turn) for one in seen] == [(1, False), (0, True)]
    assert (episode.phase, episode.ending) == ("extract", "out_of_steps")
    assert list(episode.steps.values_list("refused", flat=True)) == [False, True]


def test_sandbox_gets_no_more_seconds_than_the_episode_has_left(install: Install) -> None:
    sandbox = install(lambda stop: build_result(killed="wall", exit=None, seconds=8.0))
    conditions = Conditions(seconds=20)
    terms = {"conditions": conditions.to_json(), "conditions_key": conditions.key, "sandbox_seconds": 13.0}
    episode = run_unit(create_waiting_for_sandbox(**terms))
    assert sandbox.limits[0].seconds == 7 and episode.sandbox_seconds == 21
    assert episode.steps.get().outcome == "stopped"


def test_submission_is_stored_as_it_was_written(play: Callable[..., list[CodeSituation]]) -> None:
    answer = '{"e1": {"total": 7.0, "total2": NaN}}'
    play([ToolCall("submit", {"answer": answer})])
    episode = run_unit(code_episodes.create_code_episode())
    assert (episode.phase, episode.ending, episode.reported) == ("extract", "submitted", answer)


def test_changed_task_ends_the_episode_as_failed(play: Callable[..., list[CodeSituation]]) -> None:
    play([])
    episode = code_episodes.create_code_episode()
    ReplicationTask.objects.update(sha256="1" * 64)
    episode = run_unit(episode)
    assert (episode.status, episode.reason) == ("failed", "task_changed")


def test_worker_without_sandbox_leaves_phases_that_need_one_alone(
    play: Callable[..., list[CodeSituation]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WETBENCH_SANDBOX", "off")
    play([RUN])
    episode = code_episodes.create_code_episode()
    assert workers.run_row("code", episode.code, lambda: False)  # work is left, for others
    episode.refresh_from_db()
    assert (episode.phase, episode.lease_until) == ("sandbox", None)
    assert not workers.run_next_row(Event()) and not workers.run_row("sandbox", episode.code, lambda: False)
    CodeEpisode.objects.update(notified_at=None)
    assert notifications.list_rows_to_notify() == [("sandbox", str(episode.code))]
    assert notifications.find_next_kind("code", str(episode.code)) == "sandbox"
    assert CodeStep.objects.count() == 0


def test_sandbox_worker_leaves_phases_of_agents_alone(settings: object) -> None:
    settings.SANDBOX_ONLY = True  # type: ignore[attr-defined]
    code_episodes.create_code_episode()
    assert not workers.run_next_row(Event())
