"""One code episode without a database: an agent, a workspace and a sandbox, played by the rules of `episode_rules`."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from simulation.replication.episode_rules import (
    Ending,
    EpisodeLimits,
    Spent,
    add_remark,
    count_left,
    describe_unreadable,
    find_ending,
    find_reached_limit,
    get_reported,
    has_room,
    limit_run,
    refuse_storage,
    start_turn,
)
from simulation.replication.sandbox.base import Limits, Sandbox
from simulation.replication.tools import (
    TOOLS,
    finish_helper,
    finish_run,
    list_usable_tools,
    read_helper_file,
    refuse_tool,
)
from simulation.replication.trees import Files
from simulation.replication.values import CodeSituation, CodeStepRecord, CodingAgent, ToolCall, ToolFormatError
from simulation.replication.workspace_edits import ToolRefused, ToolResult

WITHOUT_COST = EpisodeLimits(cost=None)


class Helper(Protocol):
    """A second model that sees one file: it rewrites the file, or answers a question about it. Raises ToolRefused if it cannot."""

    def edit(self, path: str, text: str, instruction: str) -> str: ...

    def answer(self, path: str, text: str, question: str) -> str: ...


def ask_helper(helper: Helper, call: ToolCall, files: Files, folder: str) -> ToolResult:
    """Let the helper rewrite a file or answer a question about it, and return the result of the tool."""
    path, text = read_helper_file(call, files, folder)
    try:
        if call.tool == "edit_file":
            reply = helper.edit(path, text, call.arguments["instruction"])
        else:
            reply = helper.answer(path, text, call.arguments["question"])
    except ToolRefused as refusal:
        return refuse_tool(str(refusal), files, folder)
    return finish_helper(call, reply, files, folder)


class PlayedEpisode(NamedTuple):
    """A code episode that has ended. `trees[0]` is the first workspace and `trees[k]` the one after step k."""

    steps: tuple[CodeStepRecord, ...]
    trees: tuple[Files, ...]
    ending: Ending
    reported: str  # the text that was submitted, or ""
    sandbox_seconds: float


@dataclass
class CodeBench:
    """The state of one code episode, changed by one turn at a time. It ends when `ending` is set."""

    brief: str  # TASK.md
    workspace: Files
    sandbox: Sandbox
    packages: Sequence[str] = ()  # distributions that commands may import
    limits: EpisodeLimits = WITHOUT_COST
    run_limits: Limits = Limits()  # noqa: RUF009  # immutable
    helper: Helper | None = None
    tools: Collection[str] = tuple(TOOLS)
    folder: str = ""
    steps: list[CodeStepRecord] = field(default_factory=list)
    trees: list[Files] = field(default_factory=list)
    spent: Spent = Spent()  # noqa: RUF009  # immutable
    unreadable: int = 0  # replies in a row that could not be read
    ending: Ending | Literal[""] = ""
    reported: str = ""

    def __post_init__(self) -> None:
        self.trees.append(self.workspace)

    def get_situation(self) -> CodeSituation:
        """Return what the agent gets before its next turn."""
        left, last_turn = count_left(self.limits, self.spent), bool(find_reached_limit(self.limits, self.spent))
        return CodeSituation(self.brief, self.trees[-1], self.folder, tuple(self.steps), left, last_turn)

    def take_turn(self, reply: ToolCall | ToolFormatError) -> CodeStepRecord:
        """Return the step of a call, or of a reply that could not be read. Raises SandboxFault, and then nothing is changed.

        Raises ValueError if the episode has ended.
        """
        if self.ending:
            raise ValueError(f"the episode has ended: {self.ending}")
        reached = find_reached_limit(self.limits, self.spent)
        call, seconds = None, 0.0
        if isinstance(reply, ToolFormatError):
            result = ToolResult(self.trees[-1], self.folder, describe_unreadable(reply), refused=True)
        else:
            call = reply
            result, seconds = self._run_tool(call, last_turn=bool(reached))
            if result.files != self.trees[-1] and not has_room(self.trees[1:], result.files):
                result = refuse_storage(result, self.trees[-1], self.folder)
            result = result._replace(observation=add_remark(call, result.observation))
        step = CodeStepRecord(len(self.steps) + 1, call, result.observation, result.refused)
        self.unreadable = self.unreadable + 1 if call is None else 0
        self.spent = Spent(self.spent.steps + 1, self.spent.seconds + seconds, self.spent.cost)
        self.folder = result.folder
        self.steps.append(step)
        self.trees.append(result.files)
        self.ending = find_ending(call, step.refused, self.unreadable, reached)
        self.reported = get_reported(call, self.ending)
        return step

    def _run_tool(self, call: ToolCall, last_turn: bool) -> tuple[ToolResult, float]:
        """Return the result of a tool and the seconds of its sandbox."""
        files, folder = self.trees[-1], self.folder
        allowed = list_usable_tools(self.tools, self.helper is not None)
        turn = start_turn(call, files, folder, last_turn, allowed)
        if turn.needs == "sandbox":
            limits = limit_run(self.run_limits, count_left(self.limits, self.spent))
            run = self.sandbox.run(turn.command, files, limits=limits, packages=self.packages)
            return finish_run(run, files, folder), run.seconds
        if turn.needs == "helper" and self.helper is not None:
            return ask_helper(self.helper, call, files, folder), 0.0
        assert turn.result is not None  # a turn that needs nothing has its result
        return turn.result, 0.0

    def get_played(self) -> PlayedEpisode:
        """Return the episode as a value. Raises ValueError if it has not ended."""
        if not self.ending:
            raise ValueError("the episode has not ended")
        return PlayedEpisode(tuple(self.steps), tuple(self.trees), self.ending, self.reported, self.spent.seconds)


def play_episode(
    agent: CodingAgent,
    workspace: Files,
    brief: str,
    sandbox: Sandbox,
    steps: int = WITHOUT_COST.steps,
    seconds: float = WITHOUT_COST.seconds,
    packages: Sequence[str] = (),
    helper: Helper | None = None,
    tools: Collection[str] = tuple(TOOLS),
) -> PlayedEpisode:
    """Return an episode played to its end. The cost of models is not counted here. Raises SandboxFault."""
    limits = EpisodeLimits(steps, seconds, cost=None)
    bench = CodeBench(brief, workspace, sandbox, packages, limits, helper=helper, tools=tools)
    while not bench.ending:
        try:
            reply: ToolCall | ToolFormatError = agent.choose_tool(bench.get_situation())
        except ToolFormatError as error:
            reply = error
        bench.take_turn(reply)
    return bench.get_played()
