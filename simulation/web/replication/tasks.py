"""The gallery of replication tasks, the page of one task, and the press that shows its reference values."""

from typing import Any

from django import forms
from django.core.paginator import Paginator
from django.db.models import Count
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils.cache import add_never_cache_headers

from simulation.code_runs import tasks
from simulation.models import CodeEpisode, GoldResult, Grading, Mask, ReplicationTask
from simulation.replication.values import BASE_VARIANT
from simulation.web.access import StaffRequest, staff_action, staff_page
from simulation.web.replication import task_views
from simulation.web.replication.episode_rows import is_rule_based
from wetbench_site.observability.logs import log_security_event

_MASKS_PER_PAGE = 50
_LISTED_PARTS = ("data__summary", "data__functions", "data__test_cases")


class CurveFilter(forms.Form):
    """The cast whose outcomes the gallery shows; an unknown one is ignored."""

    cast = forms.ChoiceField(label="Outcomes of", required=False)

    def __init__(self, names: list[str], *args: Any) -> None:
        super().__init__(*args)
        choices = [(name, f"{name} (rules)" if is_rule_based(name) else name) for name in names]
        self.fields["cast"].choices = choices  # type: ignore[attr-defined]  # a choice field's


@staff_page
def list_tasks(request: StaffRequest) -> HttpResponse:
    """Show every task with its functions, validated masks and the outcomes of one cast."""
    rows = list(ReplicationTask.objects.prefetch_related("experiments").defer("data"))
    names = task_views.find_cast_with_outcomes()
    chosen = request.GET.get("cast", "")
    if chosen not in names:
        # Language models first: outcomes of rules are no results.
        chosen = next(iter(sorted(names, key=is_rule_based)), "")
    curves = task_views.build_curves(Grading.objects.filter(episode__cast=chosen)) if chosen else {}
    counts = task_views.count_masks(rows)
    episodes = dict(CodeEpisode.objects.order_by().values_list("mask__task").annotate(n=Count("pk")))
    # Only these parts of the task, which with its code is large.
    parts = {pk: rest for pk, *rest in ReplicationTask.objects.values_list("pk", *_LISTED_PARTS)}
    lines = []
    for row in rows:
        summary, functions, cases = parts[row.pk]
        masks, validated = counts.get(row.pk, (0, 0))
        lines.append(
            {
                "row": row,
                "summary": summary,
                "functions": len(functions),
                "cases": len(cases),
                "masks": masks,
                "validated": validated,
                "episodes": episodes.get(row.pk, 0),
                "curve": curves.get(row.pk),
            }
        )
    form = CurveFilter(names, {"cast": chosen}) if names else None
    context = {"lines": lines, "form": form, "cast": chosen, "by_rules": bool(chosen) and is_rule_based(chosen)}
    return render(request, "simulation/replication/tasks.html", context)


@staff_page
def show_task(request: StaffRequest, slug: str) -> HttpResponse:
    """Show paper, call graph, functions, experiments, validation and masks of a task, without reference values."""
    return render(request, "simulation/replication/task.html", _build_context(request, slug, with_gold=False))


@staff_action
def show_gold(request: StaffRequest, slug: str) -> HttpResponse:
    """Show the same page with the reference values on the public data. Each use is logged."""
    context = _build_context(request, slug, with_gold=True)
    log_security_event("reference values of a task shown", request, task=slug, present=context["gold"] is not None)
    response = render(request, "simulation/replication/task.html", context)
    add_never_cache_headers(response)
    return response


def _build_context(request: StaffRequest, slug: str, with_gold: bool) -> dict[str, Any]:
    row = get_object_or_404(ReplicationTask.objects.prefetch_related("experiments").defer("data"), slug=slug)
    task, proof = tasks.get_task(row), task_views.find_proof(row)
    results = GoldResult.objects.filter(task=row, task_sha256=row.sha256, variant=BASE_VARIANT, profile="full")
    gold = results.values_list("values", flat=True).first() if with_gold else None
    masks = (
        Mask.objects.filter(task=row, task_sha256=row.sha256).defer("validation").order_by("n", "mode", "index", "pk")
    )
    counted = masks.annotate(n_episodes=Count("episodes"))
    page = Paginator(counted, _MASKS_PER_PAGE).get_page(request.GET.get("page"))
    total, validated = task_views.count_masks([row]).get(row.pk, (0, 0))
    return {
        "row": row,
        "task": task,
        "proof": proof,
        "paper": task_views.split_paper(task, gold),
        "functions": task_views.list_functions(task, proof),
        "calls": task_views.list_calls(task),
        "experiments": task_views.list_experiments(task, proof, gold),
        "with_gold": with_gold,
        "gold": gold,
        "page": page,
        "names": {function.id: function.name for function in task.functions},
        "n_masks": total,
        "n_validated": validated,
    }
