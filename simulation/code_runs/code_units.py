"""Run one unit of a code episode: at most one call of a model or one sandbox, then one commit under the fence."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import takewhile
from typing import Any

from django.conf import settings
from django.utils import timezone

from simulation import leases
from simulation.calls import Connector, connect, run_usage
from simulation.calls.replay import CallReplayer
from simulation.casts import RunConfig, code_casting, prompt_store
from simulation.casts.casting import PromptTools
from simulation.code_runs import code_gradings, digests, sandboxes, stored_trees, tasks
from simulation.code_runs.conditions import Conditions, read_conditions
from simulation.code_runs.storable import clean_call, make_storable
from simulation.leases import Lease, RetriesExhausted
from simulation.models import CodeEpisode, CodeStep, Tree
from simulation.replication.agents.playing import ask_helper
from simulation.replication.episode_rules import (
    Spent,
    add_remark,
    count_left,
    describe_unreadable,
    find_ending,
    find_reached_limit,
    get_reported,
    limit_run,
    refuse_storage,
    start_turn,
)
from simulation.replication.sandbox.base import Limits, SandboxFault
from simulation.replication.tasks.workspaces import render_brief
from simulation.replication.tools import TOOLS, finish_run, list_usable_tools
from simulation.replication.values import CodeSituation, CodeStepRecord, LimitsLeft, Task, ToolCall, ToolFormatError
from simulation.replication.workspace_edits import ToolResult
from simulation.runs import stored_configs
from wetbench_site.database import release_connection

# Waits after faults of a sandbox in a row; after one more, the episode fails.
FAULT_WAITS = (5.0, 20.0, 60.0)


@dataclass
class UnitContext:
    """The inputs of one unit of a code episode."""

    lease: Lease[CodeEpisode]
    connector: Connector
    task: Task
    setup: RunConfig
    conditions: Conditions
    memory: dict[str, Any]
    spent: Spent
    files: dict[str, bytes] = field(default_factory=dict)  # the present workspace

    @property
    def episode(self) -> CodeEpisode:
        return self.lease.row

    @property
    def left(self) -> LimitsLeft:
        return count_left(self.conditions.limits, self.spent)

    @property
    def reached(self) -> Any:
        """Return the ending of the limit that is reached, which makes this turn the last one, or ""."""
        return find_reached_limit(self.conditions.limits, self.spent)

    @property
    def allowed_tools(self) -> tuple[str, ...]:
        return list_allowed_tools(self.setup)

    def make_tools(self, role: str) -> PromptTools:
        """Return what language models need, with calls that are logged for this role and step."""
        replayer = CallReplayer(self.lease, self.setup, role, self.episode.next_number, self.connector)
        texts = partial(prompt_store.load_texts, self.setup.prompt_sha256)
        return PromptTools(replayer.create_speaker, texts, self.memory)


def list_allowed_tools(setup: RunConfig) -> tuple[str, ...]:
    """Return the tools that the agent of this cast can use."""
    return list_usable_tools(setup.agent.tools or tuple(TOOLS), setup.helper is not None)


def run_code_unit(lease: Lease[CodeEpisode], connector: Connector = connect) -> bool:
    """Run the next unit of a code episode, as its phase requires. Return True if its result is committed."""
    if lease.row.cancel_requested_at:
        return lease.finish_row("cancelled")
    return leases.run_unit(lease, lambda: _run_phase(lease, connector))


def _run_phase(lease: Lease[CodeEpisode], connector: Connector) -> bool:
    try:
        if lease.row.phase in CodeEpisode.GRADING_PHASES:
            return code_gradings.run_stage_unit(lease)
        units = {"agent": _choose_tool, "sandbox": _run_in_sandbox, "helper": _ask_helper}
        return units[lease.row.phase](_build_context(lease, connector))
    except SandboxFault as fault:
        return _retry_after_fault(lease, fault)


def _build_context(lease: Lease[CodeEpisode], connector: Connector) -> UnitContext:
    episode = lease.row
    task = tasks.get_episode_task(episode)
    setup = stored_configs.get_run_config(episode.run, episode.cast)
    conditions = read_conditions(episode.conditions)
    # Without a language model nothing can cost money, and no query is needed.
    # Calls of this step do not count yet: prompts state the money that is left, and a step that runs again must send the same
    # prompts, or their answers would be paid for twice. And a limit must not end a step that was not the last turn.
    cost = float(run_usage.sum_episode_cost(episode, episode.next_number)) if setup.models else 0.0
    spent = Spent(episode.next_number - 1, episode.sandbox_seconds, cost)
    files = stored_trees.load_files(episode.present_id)
    if lease.history is None:
        lease.history = load_history(episode)
    return UnitContext(lease, connector, task, setup, conditions, dict(episode.memory), spent, files)


def load_history(episode: CodeEpisode) -> list[CodeStepRecord]:
    """Return the steps of an episode as its agent sees them."""
    rows = episode.steps.order_by("number").values_list("number", "request", "observation", "refused")
    return [
        CodeStepRecord(number, ToolCall.from_json(request) if request else None, observation, refused)
        for number, request, observation, refused in rows
    ]


def _choose_tool(context: UnitContext) -> bool:
    """Let the agent choose. A tool that works on files alone is committed at once, any other is pending."""
    episode, history = context.episode, context.lease.history or []
    agent = code_casting.build_coding_agent(
        context.setup, context.task, tuple(episode.mask.functions), episode.seed, context.make_tools("code"),
        context.conditions.to_json(),
    )  # fmt: skip
    situation = CodeSituation(
        # Not read from the workspace, where the agent may have changed it.
        brief=render_brief(context.task, tuple(episode.mask.functions), context.conditions.paper),
        files=context.files,
        folder=episode.folder,
        history=tuple(history),
        left=context.left,
        last_turn=bool(context.reached),
    )
    try:
        call = agent.choose_tool(situation)
    except ToolFormatError as error:
        result = ToolResult(context.files, episode.folder, describe_unreadable(error), refused=True)
        return _commit_step(context, None, result)
    turn = start_turn(call, context.files, episode.folder, bool(context.reached), context.allowed_tools)
    call = clean_call(call)
    if turn.needs == "nothing":
        assert turn.result is not None  # a turn that needs nothing has its result
        return _commit_step(context, call, turn.result)
    pending = {"call": call.to_json()}
    return context.lease.commit_changes(phase=turn.needs, pending=pending, **_list_changed_notes(context))


def _run_in_sandbox(context: UnitContext) -> bool:
    call, episode = _read_pending(context.episode), context.episode
    turn = start_turn(call, context.files, episode.folder, allowed=context.allowed_tools)
    if turn.result is not None:  # a newer version of the tools refuses it
        return _commit_step(context, call, turn.result)
    environment = dict(context.task.profiles.get(context.conditions.profile, {}))
    with sandboxes.open_recorded(context.lease, "tool") as sandbox:
        limits = limit_run(Limits(), context.left)
        packages = context.task.packages
        result = sandbox.run(turn.command, context.files, None, limits, packages, environment)
        finished = finish_run(result, context.files, episode.folder)
        seconds = episode.sandbox_seconds + result.seconds
        outcome = "stopped" if result.killed else "done"
        changes = {"sandbox_seconds": seconds, "sandbox_faults": 0}
        return _commit_step(context, call, finished, outcome, sandbox.write_results, **changes)


def _ask_helper(context: UnitContext) -> bool:
    """Let the helper, a second model that sees one file, rewrite the file or answer a question about it."""
    call = _read_pending(context.episode)
    helper = code_casting.build_helper(context.setup, context.make_tools("helper"))
    return _commit_step(context, call, ask_helper(helper, call, context.files, context.episode.folder))


def _commit_step(
    context: UnitContext,
    call: ToolCall | None,
    result: ToolResult,
    outcome: str = "done",
    extra_write: Callable[[], object] | None = None,
    **changes: Any,
) -> bool:
    """Store the step and move the episode on in one transaction. If the step ended the episode, its grading begins."""
    lease, episode = context.lease, context.episode
    history = lease.history or []
    result = _keep_within_storage(context, result)
    observation = make_storable(add_remark(call, result.observation) if call else result.observation)
    record = CodeStepRecord(episode.next_number, call, observation, result.refused)
    # Stored before the step that names it. If this worker dies in between, the clean-up removes what no row names.
    tree = stored_trees.store_tree(result.files)
    step = CodeStep(
        episode=episode,
        number=record.number,
        tool=call.tool[:30] if call else "",
        request=call.to_json() if call else None,
        observation=observation,
        outcome="unreadable" if call is None else "refused" if result.refused else outcome,
        refused=result.refused,
        tree_before_id=episode.present_id,
        tree_after_id=tree.pk,
    )
    step.content_sha256 = digests.compute_step_digest(step)
    cursor: dict[str, Any] = {
        "phase": "agent",
        "pending": None,
        "next_number": record.number + 1,
        "present_id": tree.pk,
        "folder": make_storable(result.folder),
        **_list_changed_notes(context),
        **changes,
    }
    steps = [*history, record]
    unreadable = sum(1 for _ in takewhile(lambda step: step.call is None, reversed(steps)))
    if ending := find_ending(call, result.refused, unreadable, context.reached):
        reported = make_storable(get_reported(call, ending)) if call else ""
        cursor |= {"phase": "extract", "ending": ending, "reported": reported}
    if not lease.commit_changes(extra_write, step, **cursor):
        return False
    lease.history = steps
    return True


def _keep_within_storage(context: UnitContext, result: ToolResult) -> ToolResult:
    """Return the result, or a refusal of its workspace if there is no room for it beside those of earlier steps."""
    trees = Tree.objects.filter(pk__in=context.episode.steps.values("tree_after_id"))
    if result.files == context.files or stored_trees.has_room(trees, result.files):
        return result
    return refuse_storage(result, context.files, context.episode.folder)


def _list_changed_notes(context: UnitContext) -> dict[str, Any]:
    """Return the change to the episode's row that stores the agent's notes, or {} if the notes did not change."""
    return {"memory": make_storable(context.memory)} if context.memory != context.episode.memory else {}


def _read_pending(episode: CodeEpisode) -> ToolCall:
    assert episode.pending is not None, "the constraint code_episode_pending_call"
    return ToolCall.from_json(episode.pending["call"])


def _retry_after_fault(lease: Lease[CodeEpisode], fault: SandboxFault) -> bool:
    """Release the episode for a while after a fault of the sandbox itself. Raises RetriesExhausted after the last wait."""
    faults = lease.row.sandbox_faults + 1
    if faults > len(FAULT_WAITS):
        raise RetriesExhausted("sandbox_fault", f"the sandbox failed {faults} times in a row: {fault}")
    retry_at = timezone.now() + timedelta(seconds=FAULT_WAITS[faults - 1] * settings.PACE)
    release_connection()
    return lease.commit_changes(
        status="waiting", begun=True, not_before=retry_at, reason="sandbox_fault", error=make_storable(str(fault))[:4000],
        sandbox_faults=faults,
    )  # fmt: skip
