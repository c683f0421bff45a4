"""Importing this module registers a Gymnasium environment `WetBenchReplication/<slug>-v0` for every task of fixtures/replication.

An episode is one mask of a task, played in sandboxes of this machine. Neither Django nor a database is needed:

    import gymnasium, simulation.replication.agents.environment
    env = gymnasium.make("WetBenchReplication/qpcr-titre-v0", n=2, index=1, mode="uniform")
    observation, info = env.reset(seed=1)
    observation, reward, terminated, truncated, info = env.step("TOOL: list_files")
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import gymnasium

from simulation.lab.environment.text_space import UnicodeText
from simulation.lab.errors import LabError
from simulation.replication.agents.playing import WITHOUT_COST, CodeBench, PlayedEpisode
from simulation.replication.episode_rules import EpisodeLimits, format_left, is_truncated
from simulation.replication.grading.grades import Grade
from simulation.replication.grading.stages import grade_work
from simulation.replication.grading.work import GradingWork
from simulation.replication.sandbox.base import Sandbox
from simulation.replication.sandbox.choosing import open_sandbox
from simulation.replication.tasks.call_graph import list_reaching_cases, trace_cases
from simulation.replication.tasks.mask_draws import draw_masks
from simulation.replication.tasks.running import generate_data, generate_variants, run_cases
from simulation.replication.tasks.task_files import list_task_folders, load_task
from simulation.replication.tasks.workspaces import BRIEF, build_workspace
from simulation.replication.tools import describe_tools
from simulation.replication.trees import Files, hash_tree
from simulation.replication.values import BASE_VARIANT, DocsArm, MaskMode, PaperArm, Task, ToolCall, ToolFormatError
from simulation.replication.wire import MAX_REPLY, format_call, parse_reply

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures" / "replication"
UNREADABLE = "(unreadable)"
_SEEDS = 2**31  # number of possible variants; 31 bits fit into any integer column
_EXAMPLE = ToolCall(
    "replace",
    {"path": "code/module.py", "old": '    raise NotImplementedError("hidden")', "new": "    return x"},
    "THOUGHT: what to do and why.",
)


class ReplySpace(UnicodeText):
    """The space of replies: text in the form of `wire`, or a call as an object with a tool and its arguments."""

    def __init__(self) -> None:
        super().__init__(MAX_REPLY)

    def contains(self, x: Any) -> bool:
        if isinstance(x, Mapping):
            # Only the shape is checked: an unknown tool is a refused step.
            return isinstance(x.get("tool"), str) and isinstance(x.get("arguments", {}), Mapping)
        return super().contains(x)


class ReplicationEnv(gymnasium.Env[str, str | Mapping[str, Any]]):
    """An environment for one mask of a task. An action is a reply as text or an object; an observation is text.

    The reward is 1.0 if the episode is solved: the reported numbers and the code are right, on the public data and on two secret data sets.
    Otherwise it is 0. An episode is terminated by submitting, quitting or three unreadable replies in a row, and truncated by a limit.
    `reset` draws the secret data sets from its seed. `step` raises SandboxFault if a sandbox could not start; the step can be repeated.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}

    def __init__(
        self,
        task: Task,
        function_ids: Sequence[str],
        sandbox: Sandbox,
        render_mode: str | None = None,
        docs: DocsArm = "kept",
        paper: PaperArm = "full",
        limits: EpisodeLimits = WITHOUT_COST,
        profile: str = "full",
    ) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode is {render_mode!r}; allowed: ansi")
        self.task, self.function_ids, self.sandbox, self.limits = task, tuple(function_ids), sandbox, limits
        self.render_mode, self.profile = render_mode, profile
        self.action_space, self.observation_space = ReplySpace(), UnicodeText()
        self.base_data = generate_data(task, BASE_VARIANT, sandbox)
        self.workspace = build_workspace(task, self.function_ids, self.base_data, docs, paper)
        self.bench: CodeBench | None = None
        self.secret: tuple[int, int] = (1, 2)

    @property
    def instructions(self) -> str:
        """Return the tools and the form of a reply. They are the same in every step, so observations omit them."""
        return f"Tools:\n{describe_tools()}\n\nForm of a reply, one tool at a time:\n{format_call(_EXAMPLE)}"

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        # Two different variants, neither of them the public one.
        first, second = (
            1 + int(drawn) for drawn in self.np_random.choice(_SEEDS - 1, size=2, replace=False, shuffle=False)
        )
        self.secret = (first, second)
        brief = self.workspace[BRIEF].decode()
        self.bench = CodeBench(brief, self.workspace, self.sandbox, self.task.packages, self.limits)
        return self._observe(self.bench, brief), self._build_info(self.bench)

    def step(self, action: str | Mapping[str, Any]) -> tuple[str, float, bool, bool, dict[str, Any]]:
        bench = self.bench
        if bench is None or bench.ending:
            raise gymnasium.error.ResetNeeded("The episode has ended or has not begun: call reset() first")
        step = bench.take_turn(_read_action(action))
        info, reward = self._build_info(bench), 0.0
        ending: str = info["ending"]
        if ending == "submitted":
            grade = self.grade(bench.get_played())
            info["outcome"], reward = grade.outcome, float(grade.solved)
        truncated = is_truncated(ending)
        return self._observe(bench, step.observation), reward, bool(ending) and not truncated, truncated, info

    def render(self) -> str | None:
        """Return the episode so far as text, or None unless `render_mode` is "ansi"."""
        if self.render_mode is None:
            return None
        if self.bench is None:
            return "The episode has not begun."
        turns = [
            f"[{step.number}] {format_call(step.call) if step.call else UNREADABLE}\n{step.observation}"
            for step in self.bench.steps
        ]
        return "\n\n".join([self.bench.brief, *turns, self.bench.ending]).rstrip()

    def grade(self, played: PlayedEpisode) -> Grade:
        """Return the grade of a played episode of this environment, on the public data and two secret data sets."""
        secret = generate_variants(self.task, self.secret, self.sandbox)
        variants: dict[int, Files] = {BASE_VARIANT: self.base_data, **secret}
        report = run_cases(self.task, self.task.code, variants, self.sandbox, self.profile)
        gold = {
            variant: {case: values or {} for case, values in report.get_values(variant).items()} for variant in variants
        }
        work = GradingWork(
            self.task,
            self.function_ids,
            played.trees[-1],
            variants,
            gold,
            self.cases,
            played.ending,
            played.reported,
            self.profile,
            self.workspace,
        )
        return grade_work(work, self.sandbox)

    @cached_property
    def cases(self) -> tuple[str, ...]:
        """Return the test cases that reach a hidden function; all of them if nothing is hidden."""
        reached = trace_cases(self.task, self.base_data, self.sandbox)
        return list_reaching_cases(self.task, self.function_ids, reached)

    def _observe(self, bench: CodeBench, text: str) -> str:
        """Return a text with what is left of the limits, which the agent needs for its next choice."""
        situation = bench.get_situation()
        left = "" if bench.ending else f"\n\n{format_left(situation.left, situation.last_turn)}"
        return text + left

    def _build_info(self, bench: CodeBench) -> dict[str, Any]:
        last = bench.steps[-1] if bench.steps else None
        return {
            "step": len(bench.steps),
            "refused": bool(last and last.refused),
            "folder": bench.folder,
            "tree": hash_tree(bench.trees[-1]),
            "sandbox_seconds": bench.spent.seconds,
            "ending": bench.ending,
            "outcome": "",
        }


def _read_action(action: str | Mapping[str, Any]) -> ToolCall | ToolFormatError:
    """Return the call in a reply, or the error that makes the step unreadable."""
    try:
        if not isinstance(action, Mapping):
            return parse_reply(action)
        tool, arguments = action.get("tool"), action.get("arguments", {})
        if not isinstance(tool, str) or not isinstance(arguments, Mapping):
            return ToolFormatError(["a call has a tool, which is text, and arguments by name"])
        # A line number may be a JSON number.
        texts = {name: str(value) if type(value) is int else value for name, value in arguments.items()}
        if not all(isinstance(part, str) for item in texts.items() for part in item):
            return ToolFormatError(["arguments are texts by name"])
        return ToolCall(tool, texts)
    except ToolFormatError as error:
        return error


def list_slugs(directory: Path = FIXTURES) -> list[str]:
    """Return the names of the task folders. No file is read."""
    return [folder.name for folder in list_task_folders(directory)]


def environment_id(slug: str) -> str:
    return f"WetBenchReplication/{slug}-v0"


def make_environment(
    slug: str,
    n: int = 1,
    index: int = 1,
    mode: MaskMode = "uniform",
    draw_seed: int = 1,
    functions: Sequence[str] | None = None,
    render_mode: str | None = None,
    docs: DocsArm = "kept",
    paper: PaperArm = "full",
    steps: int = WITHOUT_COST.steps,
    seconds: float = WITHOUT_COST.seconds,
    directory: Path = FIXTURES,
    profile: str = "full",
) -> ReplicationEnv:
    """Return the environment of one mask: the `index`-th that hides n functions, from 1, or the one that hides `functions`.

    `profile` is the size of the experiments in the grading, "full" or "quick". Raises SandboxUnavailable, TaskFileError, MaskDrawError, and LabError if there is no such task or mask.
    """
    if slug not in (slugs := list_slugs(directory)):
        raise LabError(f"No task {slug!r}; there are {', '.join(slugs)}")
    task = load_task(directory / slug)
    if functions is None:
        masks = draw_masks(task, n, max(1, index), mode, draw_seed)
        if not 1 <= index <= len(masks):
            raise LabError(f"index is {index}; allowed for {slug} with n = {n}, {mode}: 1 to {len(masks)}")
        functions = masks[index - 1].functions
    limits = EpisodeLimits(steps, seconds, cost=None)
    return ReplicationEnv(task, functions, open_sandbox(), render_mode, docs, paper, limits, profile)


def register_environments() -> None:
    """Register every task with Gymnasium. Repeated calls have no effect."""
    # As text, not the function itself: specifications with text can be written to JSON and read in another process.
    entry_point = f"{make_environment.__module__}:{make_environment.__name__}"
    for slug in list_slugs():
        if environment_id(slug) not in gymnasium.registry:
            gymnasium.register(environment_id(slug), entry_point=entry_point, kwargs={"slug": slug})


register_environments()
