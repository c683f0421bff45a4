"""Code episodes as lines for training, and the changes of each step as patches."""

from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path
from typing import Any

from django.db.models import Sum

from simulation.calls import call_log, call_texts
from simulation.calls.call_texts import CallMessage
from simulation.code_runs import code_units, stored_trees, tasks
from simulation.code_runs.conditions import read_conditions
from simulation.lab.errors import TaskChanged
from simulation.models import CodeEpisode, CodeStep, Run
from simulation.recordings.exported_lines import ExportResult, LeftOutError, write_lines
from simulation.replication.agents.trajectories import build_trajectory
from simulation.replication.trees import Files
from simulation.runs.stored_configs import get_run_config


def write_code_trajectories(
    run: Run, path: Path, folder: Path | None = None, with_prompts: bool = True
) -> ExportResult:
    """Write one line per graded episode, and below `folder` the patches of its steps. Raises OSError."""
    rows = run.code_episodes.select_related("run", "mask__task", "grading").defer("mask__task__data", "grading__stages")

    def build_line(episode: CodeEpisode) -> dict[str, Any]:
        line = build_code_trajectory(episode, with_prompts)
        if folder:
            write_patches(episode, folder / str(episode.code))
        return line

    ordered = rows.order_by("mask__task__slug", "mask__n", "mask__key", "replicate", "pk")
    return write_lines(ordered.iterator(chunk_size=20), path, build_line)


def build_code_trajectory(episode: CodeEpisode, with_prompts: bool = True) -> dict[str, Any]:
    """Return an episode as `replay_trajectory` of simulation.replication.agents.trajectories expects it.

    With prompts, each step has the calls of language models that were answered in it. Raises LeftOutError.
    """
    if episode.status not in CodeEpisode.ENDINGS:
        raise LeftOutError(episode.get_status_display())
    if episode.grading.outcome == "fault":
        raise LeftOutError("its grading failed, so it has no reward")
    try:
        task = tasks.get_episode_task(episode)
    except TaskChanged:
        raise LeftOutError("the task has changed since") from None
    conditions = read_conditions(episode.conditions)
    rows = list(episode.steps.order_by("number"))
    seconds = episode.sandbox_runs.filter(purpose="tool", state="done").values_list("number").annotate(Sum("seconds"))
    line = build_trajectory(
        task,
        episode.mask.functions,
        code_units.load_history(episode),
        [episode.initial_id, *(row.tree_after_id for row in rows)],
        episode.ending,
        episode.grading.outcome,
        conditions.limits,
        {name: getattr(conditions, name) for name in ("paper", "code", "docs", "profile")},
        dict(_iter_helper_replies(rows)),
        {number: total or 0.0 for number, total in seconds},
        code_units.list_allowed_tools(get_run_config(episode.run, episode.cast)),
    )
    if with_prompts:
        calls = load_calls(episode)
        for step in line["steps"]:
            step["calls"] = calls.get(step["number"], [])
    facts = {
        "run": str(episode.run.code),
        "episode": str(episode.code),
        "mask": episode.mask.key,
        "cast": episode.cast,
        "is_rule_based": not episode.run.setup_sha256,
        "replicate": episode.replicate,
        "seed": episode.seed,
    }
    return {"schema": line.pop("schema"), **facts, **line, "plan": episode.memory.get("plan", "")}


def load_calls(episode: CodeEpisode) -> dict[int, list[dict[str, Any]]]:
    """Return the answered calls of an episode by step: role, purpose, model, and the messages with the model's reply as the last."""
    by_step: dict[int, list[dict[str, Any]]] = {}
    calls = list(episode.calls.filter(state="answered").order_by("pk"))
    for call, body in zip(calls, call_log.restore_texts(call.request for call in calls), strict=True):
        messages = [*call_texts.read_messages(body), CallMessage("assistant", call_texts.read_answer(call))]
        about = {"role": call.role, "purpose": call.purpose, "model": call.model_name}
        line = {**about, "messages": [message._asdict() for message in messages]}
        by_step.setdefault(call.number, []).append(line)
    return by_step


def write_patches(episode: CodeEpisode, folder: Path) -> None:
    """Write for every step that changed the workspace a file `step-003.patch`. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for step in episode.steps.order_by("number"):
        if step.tree_before_id != step.tree_after_id:
            before, after = map(stored_trees.load_files, (step.tree_before_id, step.tree_after_id))
            # In bytes, so that no system changes the ends of lines.
            (folder / f"step-{step.number:03}.patch").write_bytes(render_patch(before, after).encode())


def render_patch(before: Files, after: Files) -> str:
    """Return a unified diff of two workspaces, which `git apply` accepts. Files that are not text are only named."""
    changed = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
    return "".join("".join(_iter_file_patch(path, before.get(path), after.get(path))) for path in changed)


def _iter_file_patch(path: str, before: bytes | None, after: bytes | None) -> Iterator[str]:
    yield f"diff --git a/{path} b/{path}\n"
    if before is None:
        yield "new file mode 100644\n"
    if after is None:
        yield "deleted file mode 100644\n"
    try:
        old, new = _split_lines(before), _split_lines(after)
    except UnicodeDecodeError:
        yield f"Binary files a/{path} and b/{path} differ\n"
        return
    # A tab ends a name with spaces.
    end = "\t" if " " in path else ""
    old_name = "/dev/null" if before is None else f"a/{path}{end}"
    new_name = "/dev/null" if after is None else f"b/{path}{end}"
    for line in unified_diff(old, new, old_name, new_name):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _split_lines(content: bytes | None) -> list[str]:
    """Return the lines of a text with their ends. Only a line feed ends a line, as in a patch. Raises UnicodeDecodeError."""
    lines = (content or b"").decode().split("\n")
    return [f"{line}\n" for line in lines[:-1]] + [line for line in lines[-1:] if line]


def _iter_helper_replies(rows: list[CodeStep]) -> Iterator[tuple[int, str]]:
    """Yield by step what the helper answered, or the whole text of the file that it rewrote."""
    for row in rows:
        if row.refused:
            continue
        if row.tool == "understand_file":
            yield row.number, row.observation
        if row.tool == "edit_file" and row.tree_before_id != row.tree_after_id:
            before, after = map(stored_trees.load_files, (row.tree_before_id, row.tree_after_id))
            [text] = [content.decode() for path, content in after.items() if before.get(path) != content]
            yield row.number, text
