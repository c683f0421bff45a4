"""The page of one mask: the hidden functions, the experiments that call them, its validation and its code episodes."""

from typing import Any

from django.core.paginator import Paginator
from django.db.models import Case, IntegerField, Value, When
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render

from simulation.code_runs import creation, masks, tasks
from simulation.models import Mask, ReplicationTask
from simulation.replication.sandbox.packages import describe_environment
from simulation.replication.tasks.masking import mask_code
from simulation.replication.tasks.source_text import find_functions
from simulation.web.access import StaffRequest, staff_page
from simulation.web.episodes import PER_PAGE
from simulation.web.replication.episode_rows import code_episodes_for_list, make_code_episode_row


@staff_page
def show_mask(request: StaffRequest, slug: str, key: str) -> HttpResponse:
    """Show a mask of the task's present version, or the newest one of an earlier version. Reference bodies are not shown."""
    row = get_object_or_404(ReplicationTask.objects.defer("data"), slug=slug)
    is_present = When(task_sha256=row.sha256, then=Value(0))
    order = Case(is_present, default=Value(1), output_field=IntegerField())
    mask = Mask.objects.filter(task=row, key=key).order_by(order, "-pk").first()
    if mask is None:
        raise Http404
    mask.task = row
    is_current = mask.task_sha256 == row.sha256
    page = Paginator(code_episodes_for_list().filter(mask=mask), PER_PAGE).get_page(request.GET.get("page"))
    lines = [make_code_episode_row(episode) for episode in page]
    context: dict[str, Any] = {
        "mask": mask,
        "row": row,
        "is_current": is_current,
        "problem": mask.validation.get("problem", ""),
        "environment": mask.validation.get("environment", {}),
        "sandbox": mask.validation.get("sandbox", ""),
        "is_validated": is_current and masks.is_validated(mask),
        "command": creation.list_validation_commands([mask])[0] if is_current else "",
        "here": describe_environment(row.packages),
        "page": page,
        "lines": lines,
        "by_rules": any(line.by_rules for line in lines),
    }
    # Names and code are those of the present version, so nothing is shown of an earlier one.
    if is_current:
        task = tasks.get_task(row)
        titles = {case.id: case.title for case in task.test_cases}
        context["functions"] = [task.get_function(name) for name in mask.functions]
        context["sources"] = _list_masked_functions(mask)
        context["experiments"] = [(case, titles.get(case, "")) for case in mask.test_cases]
    return render(request, "simulation/replication/mask.html", context)


def _list_masked_functions(mask: Mask) -> dict[str, str]:
    """Return by function id what an agent sees of each hidden function."""
    task = tasks.get_task(mask.task)
    code = mask_code(task, tuple(mask.functions))
    shown = {}
    for name in mask.functions:
        function = task.get_function(name)
        node = find_functions(code[function.path])[function.name]
        lines = code[function.path].split("\n")
        shown[name] = "\n".join(lines[node.lineno - 1 : node.end_lineno])
    return shown
