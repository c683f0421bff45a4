"""The rules of a code episode: limits, what a tool call needs, the last turn and the endings.

The pure loop (`agents/playing.py`), the Gymnasium environment and the database runner use these functions and have no rules of their own.

One turn: the agent chooses a tool (`count_left`, `find_reached_limit`: if a limit is reached, this is its last turn); `start_turn`
returns the result, or the command or the file that the tool needs; `find_ending` returns how the episode ended, or "".
"""

from collections.abc import Collection, Iterable
from typing import Literal, NamedTuple

from simulation.replication.observations import cut_observation
from simulation.replication.sandbox import base
from simulation.replication.tools import (
    LAST_TURN_TOOLS,
    QUIT,
    SUBMIT,
    TOOLS,
    apply_file_tool,
    build_command,
    find_call_problems,
    read_helper_file,
    refuse_tool,
)
from simulation.replication.trees import Files, hash_blob
from simulation.replication.values import LimitsLeft, ToolCall, ToolFormatError
from simulation.replication.workspace_edits import ToolRefused, ToolResult
from wetbench_site.text import format_count, join_words

Ending = Literal["submitted", "quit", "unreadable_out", "out_of_steps", "out_of_time", "out_of_money"]
ENDINGS: tuple[Ending, ...] = ("submitted", "quit", "unreadable_out", "out_of_steps", "out_of_time", "out_of_money")
MOST_UNREADABLE = 3  # unreadable replies in a row that end an episode
# Of all workspaces after the steps of an episode, equal contents counted once. Without it, 50 steps that write random numbers would
# store 800 MiB, and 1000 steps 16 GiB.
MAX_STORED_BYTES = 256 * 2**20
SMALL_WORKSPACE_BYTES = 256 * 2**10  # always stored: steps of ordinary size need no look at earlier workspaces
_SHORTEST_RUN = 1.0  # seconds; a command that is started gets at least this long


class EpisodeLimits(NamedTuple):
    """Limits of one code episode. Only the time of sandboxes counts, so that results do not depend on a provider's speed."""

    steps: int = 50
    seconds: float = 1800.0  # of sandboxes
    cost: float | None = 1.0  # US dollars; None: no limit


class Spent(NamedTuple):
    """What an episode has used of its limits."""

    steps: int = 0
    seconds: float = 0.0
    cost: float = 0.0


class Turn(NamedTuple):
    """What a tool call needs next.

    "nothing": `result` is there. "sandbox": run `command`, then `tools.finish_run`. "helper": ask the helper about the file of
    `read_helper_file`, then `tools.finish_helper`.
    """

    needs: Literal["nothing", "sandbox", "helper"]
    result: ToolResult | None = None
    command: tuple[str, ...] = ()


def count_left(limits: EpisodeLimits, spent: Spent) -> LimitsLeft:
    """Return what is left of the limits, never below 0."""
    cost = None if limits.cost is None else max(0.0, limits.cost - spent.cost)
    return LimitsLeft(max(0, limits.steps - spent.steps), max(0.0, limits.seconds - spent.seconds), cost)


def find_reached_limit(limits: EpisodeLimits, spent: Spent) -> Ending | Literal[""]:
    """Return the ending of the first limit that is reached, or "". If one is, the next turn is the last one."""
    left = count_left(limits, spent)
    if left.steps <= 0:
        return "out_of_steps"
    if left.seconds <= 0:
        return "out_of_time"
    return "out_of_money" if left.cost is not None and left.cost <= 0 else ""


def limit_run(limits: base.Limits, left: LimitsLeft) -> base.Limits:
    """Return the limits of a sandbox, with no more seconds than the episode has left."""
    return limits._replace(seconds=min(limits.seconds, max(_SHORTEST_RUN, left.seconds)))


def start_turn(
    call: ToolCall, files: Files, folder: str, last_turn: bool = False, allowed: Collection[str] = tuple(TOOLS)
) -> Turn:
    """Return what a call needs. `allowed` are the tools of this agent; on the last turn, only submit and quit are possible.

    A faulty call needs nothing: its result is a refusal that states every fault.
    """
    if problems := _find_refusal(call, last_turn, allowed):
        return Turn("nothing", refuse_tool("; ".join(problems), files, folder))
    kind = TOOLS[call.tool].kind
    try:
        if kind == "sandbox":
            return Turn("sandbox", command=build_command(call, folder))
        if kind == "helper":
            read_helper_file(call, files, folder)
            return Turn("helper")
    except ToolRefused as refusal:
        return Turn("nothing", refuse_tool(str(refusal), files, folder))
    if kind == "ending":
        return Turn("nothing", ToolResult(files, folder, f"{call.tool}: the episode has ended"))
    return Turn("nothing", apply_file_tool(call, files, folder))


def _find_refusal(call: ToolCall, last_turn: bool, allowed: Collection[str]) -> list[str]:
    if call.tool in TOOLS and call.tool not in allowed:
        return [f"{call.tool} is not a tool of this agent; its tools are {join_words(allowed)}"]
    if last_turn and call.tool not in LAST_TURN_TOOLS:
        return [f"a limit is reached; only {join_words(LAST_TURN_TOOLS)} were possible"]
    return find_call_problems(call)


def has_room(trees: Iterable[Files], files: Files) -> bool:
    """Return whether a workspace can be kept beside those after earlier steps, within MAX_STORED_BYTES of distinct contents."""
    added = sum(map(len, files.values()))
    if added <= SMALL_WORKSPACE_BYTES:
        return True
    contents = [content for tree in trees for content in tree.values()]
    if sum(map(len, contents)) + added <= MAX_STORED_BYTES:
        return True
    sizes = {hash_blob(content): len(content) for content in contents}
    new = {hash_blob(content): len(content) for content in files.values()}
    return new.keys() <= sizes.keys() or sum({**sizes, **new}.values()) <= MAX_STORED_BYTES


def refuse_storage(result: ToolResult, files: Files, folder: str) -> ToolResult:
    """Return a tool's result with the workspace as it was before, because the new one has no room."""
    note = (
        "the workspace is as it was before: all workspaces of an episode may have "
        f"{MAX_STORED_BYTES // 2**20} MiB of different files together"
    )
    return result._replace(files=files, folder=folder, observation=cut_observation(f"{note}\n{result.observation}"))


def add_remark(call: ToolCall, observation: str) -> str:
    """Return the observation, preceded by a note on what was ignored in the reply, such as a second tool."""
    return f"{cut_observation(call.remark, 300)}\n{observation}" if call.remark else observation


def describe_unreadable(error: ToolFormatError) -> str:
    """Return the observation for a reply that is not a tool call."""
    faults = "\n".join(f"- {problem}" for problem in error.problems)
    return cut_observation(f"the reply is not a tool call:\n{faults}")


def find_ending(
    call: ToolCall | None, refused: bool, unreadable: int, reached: Ending | Literal[""]
) -> Ending | Literal[""]:
    """Return how the episode ended with this step, or "".

    `call` is None for an unreadable reply; `unreadable` counts unreadable replies in a row, this one included; `reached` is the
    limit that was reached before this turn, which made it the last one.
    """
    if call is None and unreadable >= MOST_UNREADABLE:
        return "unreadable_out"
    if call is not None and not refused:
        if call.tool == SUBMIT:
            return "submitted"
        if call.tool == QUIT:
            return "quit"
    return reached


def get_reported(call: ToolCall | None, ending: Ending | Literal[""]) -> str:
    """Return the text that was submitted, or "" if the episode ended otherwise or goes on."""
    return call.arguments["answer"] if call is not None and ending == "submitted" else ""


def is_truncated(ending: str) -> bool:
    """Return whether a limit ended the episode, and not the agent."""
    return ending.startswith("out_of_")


def format_left(left: LimitsLeft, last_turn: bool = False) -> str:
    """Return what is left of the limits as one line for an agent."""
    if last_turn:
        return f"A limit is reached. This is the last turn: only {join_words(LAST_TURN_TOOLS)} are possible."
    money = "" if left.cost is None else f", {left.cost:.2f} US dollars"
    return f"Left: {format_count(left.steps, 'step')}, {left.seconds:.0f} seconds of commands{money}."
