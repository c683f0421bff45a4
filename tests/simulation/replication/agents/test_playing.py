"""The loop of a code episode: limits, the last turn, endings, helper and refusals, with a sandbox that gives planned results."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from simulation.replication import episode_rules
from simulation.replication.agents.playing import CodeBench, play_episode
from simulation.replication.episode_rules import EpisodeLimits, Spent, count_left, find_reached_limit, limit_run
from simulation.replication.sandbox.base import Limits, SandboxFault, SandboxResult
from simulation.replication.values import CodeSituation, LimitsLeft, ToolCall, ToolFormatError
from simulation.replication.workspace_edits import ToolRefused

FILES = {"run.py": b"print(1)\n"}
LIST, RUN = ToolCall("list_files"), ToolCall("run_command", {"command": "true"})
SUBMIT, QUIT = ToolCall("submit", {"answer": '{"e1": {"a": 1}}'}), ToolCall("quit", {"reason": "too hard"})
UNREADABLE = ToolFormatError(["there is no line `TOOL: name`"])


@dataclass
class PlannedSandbox:
    """Returns the same result for every command and records what it was given."""

    seconds: float = 1.0
    files: dict[str, bytes] | None = None
    name: str = "planned"
    limits: list[Limits] = field(default_factory=list)

    def run(self, command: Sequence[str], files: Any, limits: Limits = Limits(), **others: Any) -> SandboxResult:  # noqa: B008
        self.limits.append(limits)
        return SandboxResult(0, self.seconds, 0.1, 10, "", 0, "", self.files, (), b"")


class ListedReplies:
    """An agent that gives listed replies, the last one for ever, and records the situations."""

    def __init__(self, replies: Iterable[ToolCall | ToolFormatError]) -> None:
        self.replies, self.situations = list(replies), list[CodeSituation]()

    def choose_tool(self, situation: CodeSituation) -> ToolCall:
        self.situations.append(situation)
        reply = self.replies[min(len(self.situations), len(self.replies)) - 1]
        if isinstance(reply, ToolFormatError):
            raise reply
        return reply


def play(
    *replies: ToolCall | ToolFormatError, sandbox: PlannedSandbox | None = None, **limits: Any
) -> tuple[Any, ListedReplies]:
    agent = ListedReplies(replies)
    return play_episode(agent, FILES, "brief", sandbox or PlannedSandbox(), **limits), agent


@pytest.mark.parametrize(
    ("replies", "limits", "ending", "steps"),
    [
        ((LIST, SUBMIT), {}, "submitted", 2),
        ((LIST, QUIT), {}, "quit", 2),
        ((UNREADABLE,), {}, "unreadable_out", 3),
        ((UNREADABLE, UNREADABLE, LIST, UNREADABLE, UNREADABLE, QUIT), {}, "quit", 6),
        ((LIST,), {"steps": 2}, "out_of_steps", 3),
        ((LIST, LIST, SUBMIT), {"steps": 2}, "submitted", 3),
        ((LIST, LIST, QUIT), {"steps": 2}, "quit", 3),
        ((LIST, LIST, UNREADABLE), {"steps": 2}, "out_of_steps", 3),
        ((UNREADABLE,), {"steps": 2}, "unreadable_out", 3),
        ((LIST, LIST, ToolCall("submit", {"answer": "x"})), {"steps": 2}, "out_of_steps", 3),
        ((RUN,), {"seconds": 2.5}, "out_of_time", 4),
        ((RUN, RUN, RUN, SUBMIT), {"seconds": 2.5}, "submitted", 4),
        ((ToolCall("submit", {"answer": "x"}), SUBMIT), {}, "submitted", 2),
    ],
)  # fmt: skip
def test_code_episode_ends_by_its_rules(replies: Any, limits: Any, ending: str, steps: int) -> None:
    played, _ = play(*replies, **limits)
    assert (played.ending, len(played.steps)) == (ending, steps)
    assert played.reported == ('{"e1": {"a": 1}}' if ending == "submitted" else "")
    assert len(played.trees) == steps + 1


def test_last_turn_is_announced_and_allows_submit_and_quit_alone() -> None:
    played, agent = play(LIST, RUN, steps=1)
    assert [situation.last_turn for situation in agent.situations] == [False, True]
    assert agent.situations[1].left == LimitsLeft(0, 1800.0, None)
    assert played.steps[1].refused
    assert played.steps[1].observation == "refused: a limit is reached; only submit and quit were possible"


def test_sandbox_gets_no_more_seconds_than_the_episode_has_left() -> None:
    sandbox = PlannedSandbox(seconds=100.0)
    played, agent = play(RUN, sandbox=sandbox, seconds=250.5)
    assert [limits.seconds for limits in sandbox.limits] == [120, 120, 50.5] and played.sandbox_seconds == 300.0
    assert agent.situations[2].left.seconds == 50.5
    assert limit_run(Limits(), LimitsLeft(1, 0.01, None)).seconds == 1.0


def test_files_of_a_sandbox_become_the_workspace_and_a_removed_folder_is_left() -> None:
    move = ToolCall("move", {"from": "run.py", "to": "code/run.py"})
    enter = ToolCall("change_folder", {"folder": "code"})
    played, agent = play(move, enter, RUN, QUIT, sandbox=PlannedSandbox(files={"new.txt": b"1"}))
    assert [situation.folder for situation in agent.situations] == ["", "", "code", ""]
    assert played.trees[-1] == {"new.txt": b"1"} and played.trees[0] == FILES
    unchanged, _ = play(RUN, QUIT)
    assert unchanged.trees[-1] == FILES


def test_workspace_beyond_the_storage_of_an_episode_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episode_rules, "MAX_STORED_BYTES", 2**20)
    played, _ = play(RUN, QUIT, sandbox=PlannedSandbox(files={"random.bin": bytes(2**20 + 1)}))
    assert played.trees == (FILES, FILES, FILES)
    assert played.steps[0].observation.startswith("the workspace is as it was before")


def test_a_sandbox_fault_is_raised_and_is_no_step() -> None:
    class FaultySandbox(PlannedSandbox):
        def run(self, *arguments: Any, **others: Any) -> SandboxResult:
            raise SandboxFault("could not start")

    bench = CodeBench("brief", FILES, FaultySandbox())
    with pytest.raises(SandboxFault):
        bench.take_turn(RUN)
    assert (bench.steps, bench.spent, bench.ending) == ([], Spent(), "")


def test_helper_without_a_usable_answer_is_a_refused_tool() -> None:
    class SilentHelper:
        def edit(self, path: str, text: str, instruction: str) -> str:
            raise ToolRefused("the helper gave no usable answer")

        answer = edit

    edit = ToolCall("edit_file", {"path": "run.py", "instruction": "empty it"})
    played = play_episode(ListedReplies([edit, QUIT]), FILES, "", PlannedSandbox(), helper=SilentHelper())
    assert played.ending == "quit" and played.steps[0].refused and played.trees[1] == FILES
    assert played.steps[0].observation == "refused: the helper gave no usable answer"


def test_helper_tools_need_a_helper() -> None:
    class Helper:
        def edit(self, path: str, text: str, instruction: str) -> str:
            return f"# {path} {text.strip()} {instruction}"

        def answer(self, path: str, text: str, question: str) -> str:
            return f"{question} 42"

    edit = ToolCall("edit_file", {"path": "run.py", "instruction": "x"})
    ask = ToolCall("understand_file", {"path": "run.py", "question": "why?"})
    played = play_episode(ListedReplies([edit, ask, QUIT]), FILES, "", PlannedSandbox(), helper=Helper())
    assert played.trees[1]["run.py"] == b"# run.py print(1) x\n" and played.steps[1].observation == "why? 42"
    refused = play_episode(ListedReplies([edit, QUIT]), FILES, "", PlannedSandbox())
    assert refused.steps[0].observation.startswith("refused: edit_file is not a tool of this agent")


def test_observation_begins_with_what_was_ignored_in_the_reply() -> None:
    played, _ = play(ToolCall("list_files", remark="only the first tool is used"), QUIT)
    assert played.steps[0].observation.startswith("only the first tool is used\n1 file in the workspace")


def test_code_episode_that_has_ended_takes_no_turn() -> None:
    bench = CodeBench("brief", FILES, PlannedSandbox())
    bench.take_turn(QUIT)
    with pytest.raises(ValueError, match="the episode has ended: quit"):
        bench.take_turn(LIST)


def test_limits_are_reached_in_a_fixed_order_and_never_negative() -> None:
    limits = EpisodeLimits(2, 10.0, 1.0)
    assert count_left(limits, Spent(3, 11.0, 1.5)) == LimitsLeft(0, 0.0, 0.0)
    assert find_reached_limit(limits, Spent(2, 10.0, 1.0)) == "out_of_steps"
    assert find_reached_limit(limits, Spent(1, 10.0, 1.0)) == "out_of_time"
    assert find_reached_limit(limits, Spent(1, 9.0, 1.0)) == "out_of_money"
    assert find_reached_limit(limits, Spent(1, 9.0, 0.99)) == ""
    assert find_reached_limit(EpisodeLimits(cost=None), Spent(cost=9.0)) == ""
