"""The page of a code episode: limits, steps, workspace, grading, and the buttons that stop and retry it."""

from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Q
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse

from simulation.calls import run_usage
from simulation.code_runs import creation, stored_trees, tasks
from simulation.lab.errors import LabError, TaskChanged
from simulation.models import CodeEpisode, ModelCall, SandboxRun
from simulation.replication.values import Task
from simulation.runs import control
from simulation.web.access import StaffRequest, render_page_or_fragment, staff_action, staff_page
from simulation.web.calls import decode_bytes, defer_texts, group_calls
from simulation.web.episodes import describe_missing_worker, page_of_step, poll_seconds
from simulation.web.replication import outcomes, transcripts, workspaces
from simulation.web.replication.episode_rows import (
    CodeEpisodeRow,
    code_episodes_for_list,
    find_grading,
    make_code_episode_row,
)
from simulation.web.replication.text_previews import preview_text, show_whole_text
from simulation.web.replication.transcripts import STEPS_PER_PAGE

_PLAN_SHOWN = 4000  # bytes
_TREE_DIGITS = 12  # of a workspace's digest: enough to see that it is another one
_MAX_SANDBOXES = 200  # in the table of sandboxes; an episode of 50 steps has fewer than 60


class LimitRow(NamedTuple):
    """A limit of an episode: what is used, the limit, both as text, and their ratio from 0 to 1."""

    name: str
    used: str
    limit: str
    left: str
    share: float


@staff_page
def show_code_episode(request: StaffRequest, code: UUID) -> HttpResponse:
    """Show steps, workspace and outcome. While the episode runs, htmx requests its head and the steps that the page lacks."""
    rows = code_episodes_for_list()
    row = get_object_or_404(rows if request.htmx else rows.select_related("initial", "present"), code=code)
    line = make_code_episode_row(row)
    notice = describe_missing_worker(line.live and not row.run.paused_at)
    shown = request.GET.get("shown", "")
    head: dict[str, Any] = {
        "line": line,
        "limits": _list_limits(line),
        "poll": poll_seconds([row.status], notice or row.run.paused_at),
        "notice": notice,
        "shown": int(shown) if shown.isdecimal() and len(shown) < 6 else line.steps,
    }
    if request.htmx:
        head |= _build_news(row, head["shown"], "follow" in request.GET, request.GET.get("tree", ""))
        head["ended"] = not line.live
        return render_page_or_fragment(request, "", "simulation/replication/_episode_head.html", head)
    context = {**head, **_build_body(request, row)}
    return render_page_or_fragment(request, "simulation/replication/episode.html", "", context)


def _build_news(row: CodeEpisode, shown: int, follow: bool, tree: str) -> dict[str, Any]:
    """Return what changed since the page was loaded, with at most four queries: whether files did, stages of the grading, and new steps.

    `follow`: the page shows the last `shown` steps, so that further ones are appended to it. `tree`: the start of the digest of its workspace.
    """
    news: dict[str, Any] = {"tree": tree, "has_new_files": not row.present_id.startswith(tree), "follow": follow}
    if row.ending:
        runs = list(row.sandbox_runs.exclude(purpose="tool").defer("command", "limits")[:_MAX_SANDBOXES])
        news |= {"stages": outcomes.list_stages(row.phase, row.has_ended, runs), "graded": True}
    if follow:
        steps = list(transcripts.steps_for_page(row.steps.filter(number__gt=shown))[:STEPS_PER_PAGE])
        numbers = [step.number for step in steps]
        runs = list(row.sandbox_runs.filter(number__in=numbers).defer("command", "limits")) if steps else []
        news["new_steps"] = _list_steps(row, steps, runs, None) if steps else []
        news["shown"] = numbers[-1] if steps else shown
    return news


def _list_limits(line: CodeEpisodeRow) -> list[LimitRow]:
    """Return the limits of an episode with what is used. One query if a language model takes part."""
    terms, row = line.episode.conditions, line.episode
    seconds = float(terms.get("seconds", 0))
    rows = [
        LimitRow(
            "Steps",
            str(line.steps),
            str(line.limit),
            str(max(0, line.limit - line.steps)),
            _share(line.steps, line.limit),
        ),
        LimitRow(
            "Sandbox time",
            f"{row.sandbox_seconds:,.1f} s",
            f"{seconds:,.0f} s",
            f"{max(0.0, seconds - row.sandbox_seconds):,.0f} s",
            _share(row.sandbox_seconds, seconds),
        ),
    ]
    cost = terms.get("cost")
    if line.by_rules or cost is None:
        return rows
    spent, limit = run_usage.sum_episode_cost(row), Decimal(str(cost))
    left = max(Decimal(0), limit - spent)
    return [
        *rows,
        LimitRow("Cost", f"${spent:.4f}", f"${limit:.2f}", f"${left:.4f}", _share(float(spent), float(limit))),
    ]


def _share(used: float, limit: float) -> float:
    return round(min(1.0, used / limit), 3) if limit else 0.0


def _build_body(request: StaffRequest, row: CodeEpisode) -> dict[str, Any]:
    """Return one page of steps, the workspace and the outcome, with a number of queries that does not depend on the rows."""
    task, changed = _find_task(row)
    names = {function.id: function for function in task.functions} if task else {}
    runs = list(row.sandbox_runs.defer("command", "limits").order_by("pk")[:_MAX_SANDBOXES])
    grading = find_grading(row)
    contents = list(row.steps.values_list("number", "tool", "outcome"))
    step = request.GET.get("step", "")
    number = page_of_step(int(step)) if step.isdecimal() and len(step) < 6 else request.GET.get("page")
    page = Paginator(transcripts.steps_for_page(row.steps.all()), STEPS_PER_PAGE).get_page(number)
    return {
        "task": task,
        "changed": changed,
        "functions": [(name, names.get(name)) for name in row.mask.functions],
        "shown": len(contents),
        "page": page,
        "follow": not page.has_next(),
        "tree": row.present_id[:_TREE_DIGITS],
        "contents": [
            (at, tool or "unreadable reply", result, 0 if page_of_step(at) == page.number else page_of_step(at))
            for at, tool, result in contents
        ],
        "steps": _list_steps(row, list(page), runs, len(contents) if not page.has_next() else None),
        "plan": preview_text(row.memory.get("plan", ""), _PLAN_SHOWN),
        "workspace": workspaces.show_workspace(row.initial, row.present, request.GET.get("files") == "all"),
        "outcome": outcomes.build_outcome(grading, task, row.mask.functions) if grading else None,
        "stages": outcomes.list_stages(row.phase if row.ending else "", row.has_ended, runs),
        "graded": bool(row.ending),
        "runs": runs,
    }


def _find_task(row: CodeEpisode) -> tuple[Task | None, str]:
    """Return the task of an episode, or None and the reason if it was changed since."""
    try:
        return tasks.get_episode_task(row), ""
    except TaskChanged as error:
        return None, str(error)


def _list_steps(
    row: CodeEpisode, steps: list[Any], runs: list[SandboxRun], last: int | None
) -> list[transcripts.CodeStepView]:
    """Return the views of steps with their sandboxes and calls. `last` is the number of steps if these are the last ones."""
    numbers = [step.number for step in steps]
    condition = Q(number__in=numbers)
    if last is not None:
        condition |= Q(number__gt=last)
    calls: dict[int, list[ModelCall]] = {}
    for call in defer_texts(row.calls.filter(condition).order_by("number", "pk")):
        calls.setdefault(min(call.number, numbers[-1]) if numbers else call.number, []).append(call)
    sandboxes = {run.number: run for run in runs if run.purpose == "tool"}
    return [
        transcripts.build_step(
            step, sandboxes.get(step.number), group_calls(own) if (own := calls.get(step.number)) else None
        )
        for step in steps
    ]


@staff_page
def show_code_step(request: StaffRequest, code: UUID, number: int) -> HttpResponse:
    """Show one step with its whole texts: with htmx in place of the short ones."""
    row = get_object_or_404(code_episodes_for_list(), code=code)
    step = get_object_or_404(row.steps, number=number)
    run = row.sandbox_runs.filter(number=number, purpose="tool").order_by("-pk").first()
    context = {"line": make_code_episode_row(row), "step": transcripts.build_whole_step(step, run), "whole": True}
    page, fragment = "simulation/replication/step.html", "simulation/replication/_step.html"
    return render_page_or_fragment(request, page, fragment, context)


@staff_page
def show_code_diff(request: StaffRequest, code: UUID) -> HttpResponse:
    """Show what changed in one file of the workspace (`?path=`)."""
    row = get_object_or_404(code_episodes_for_list().select_related("initial", "present"), code=code)
    before, after = dict(row.initial.entries), dict(row.present.entries)
    path = request.GET.get("path", "")
    if not path:
        return redirect("simulation:code_episode", code=row.code)
    try:
        diffs = workspaces.compare_trees(before, after, only=path) if path in {*before, *after} else []
    except LabError as error:
        raise Http404 from error
    if not diffs:
        raise Http404
    context = {"line": make_code_episode_row(row), "diff": diffs[0]}
    page, fragment = "simulation/replication/diff.html", "simulation/replication/_diff_lines.html"
    return render_page_or_fragment(request, page, fragment, context)


@staff_page
def show_code_file(request: StaffRequest, code: UUID) -> HttpResponse:
    """Show one file of the present workspace (`?path=`)."""
    row = get_object_or_404(code_episodes_for_list(), code=code)
    path = request.GET.get("path", "")
    if not path:
        return redirect("simulation:code_episode", code=row.code)
    try:
        content = stored_trees.load_file(row.present_id, path)
    except LabError as error:
        raise Http404 from error
    if content is None:
        raise Http404
    context = {
        "line": make_code_episode_row(row),
        "path": path,
        "size": len(content),
        "text": show_whole_text(decode_bytes(content)),
    }
    return render(request, "simulation/replication/file.html", context)


@staff_action
def stop_code_episode(request: StaffRequest, code: UUID) -> HttpResponse:
    row = get_object_or_404(CodeEpisode.objects.select_related("run"), code=code)
    if not control.stop_code_episode(row) and not CodeEpisode.objects.filter(pk=row.pk, status="cancelled").exists():
        messages.info(request, "This code episode has already ended.")
    return redirect(_return_url(request, row))


@staff_action
def retry_code_episode(request: StaffRequest, code: UUID) -> HttpResponse:
    """Create a new code episode that replaces this one. Pressing the button twice creates only one."""
    row = get_object_or_404(CodeEpisode.objects.select_related("run"), code=code)
    try:
        retried = creation.retry_code_episode(row)
    except ValueError as error:
        messages.info(request, f"Not queued again: {error}.")
        return redirect(_return_url(request, row))
    messages.success(request, f"Replicate {retried.replicate} is queued again.")
    return redirect(_return_url(request, retried))


def _return_url(request: StaffRequest, row: CodeEpisode) -> str:
    if request.POST.get("from") == "run":
        return reverse("simulation:run", args=[row.run.code])
    return reverse("simulation:code_episode", args=[row.code])
