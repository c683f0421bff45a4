"""Grade code episodes, one stage a unit, and grade them again."""

from simulation.code_runs import digests, gold, sandboxes, stored_trees, tasks
from simulation.code_runs.conditions import read_conditions
from simulation.code_runs.gold import GoldError
from simulation.code_runs.storable import make_storable
from simulation.leases import Lease
from simulation.models import CodeEpisode, Grading
from simulation.replication.grading import (
    Grade,
    GradingWork,
    RecordingError,
    Stages,
    choose_stage,
    conclude,
    run_stage,
)
from simulation.replication.sandbox.base import Sandbox
from simulation.replication.tasks.running import TaskRunError
from simulation.replication.values import BASE_VARIANT

# The task's own code failed, which never counts against an agent.
TASK_FAULTS = (GoldError, TaskRunError, RecordingError)


def run_stage_unit(lease: Lease[CodeEpisode]) -> bool:
    """Run the next stage of an episode's grading. With the last one, store the grading and end the episode."""
    episode = lease.row
    stages = Stages.from_json(episode.pending["stages"]) if episode.pending else Stages()
    with sandboxes.open_recorded(lease, episode.phase) as sandbox:
        work: GradingWork | None = None
        try:
            work = prepare_grading(episode, sandbox)
            if stage := choose_stage(work, stages):
                stages = run_stage(stage, work, stages, sandbox)
        except TASK_FAULTS as error:
            return _finish(lease, work, stages, sandbox, fault=str(error))
        following = choose_stage(work, stages)
        if following is None:
            return _finish(lease, work, stages, sandbox)
        pending = {"stages": make_storable(stages.to_json())}
        return lease.commit_changes(sandbox.write_results, phase=following, pending=pending, sandbox_faults=0)


def prepare_grading(episode: CodeEpisode, sandbox: Sandbox) -> GradingWork:
    """Return what is graded. Data and gold values that are not stored yet are computed in sandboxes of their own.

    Raises TaskChanged, GoldError, TaskRunError and SandboxFault.
    """
    row, task = episode.mask.task, tasks.get_episode_task(episode)
    profile = read_conditions(episode.conditions).profile
    variants = gold.ensure_gold(row, [BASE_VARIANT, *gold.choose_variants(row, episode.code)], profile, sandbox)
    return GradingWork(
        task,
        tuple(episode.mask.functions),
        stored_trees.load_files(episode.present_id),
        data={number: variant.data for number, variant in variants.items()},
        gold={number: variant.values for number, variant in variants.items()},
        cases=tuple(episode.mask.test_cases) or None,
        ending=episode.ending,
        reported=episode.reported or None,
        profile=profile,
        initial=stored_trees.load_files(episode.initial_id),
    )


def _finish(
    lease: Lease[CodeEpisode],
    work: GradingWork | None,
    stages: Stages,
    sandbox: sandboxes.RecordedSandbox,
    fault: str = "",
) -> bool:
    """Store the grading and end the episode as its agent ended it. `work` is None if it could not be prepared."""
    episode = lease.row
    if work is None:
        task, functions = tasks.get_task(episode.mask.task), tuple(episode.mask.functions)
        work = GradingWork(task, functions, {}, {}, {}, ending=episode.ending, reported=episode.reported or None)
    grading = build_grading(episode, conclude(work, stages, fault), stages, work.secret_variants)
    return lease.finish_row(episode.ending, sandbox.write_results, new_row=grading, pending=None, sandbox_faults=0)


def build_grading(episode: CodeEpisode, grade: Grade, stages: Stages, variants: list[int]) -> Grading:
    """Return an unsaved row for a grade."""
    grading = Grading(
        episode=episode,
        version=grade.version,
        outcome=grade.outcome,
        solved=grade.solved,
        paper_pass=grade.paper_pass,
        measured=grade.measured,
        robust=grade.robust,
        variants=variants,
        grade=make_storable(grade.to_json()),
        stages=make_storable(stages.to_json()),
    )
    grading.sha256 = digests.compute_grading_digest(grading)
    return grading
