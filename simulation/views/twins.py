"""Twins: outcomes with a planted error, and what that error is. For staff alone."""

from uuid import UUID

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Count, Q, QuerySet
from django.db.models.fields.json import KT
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from simulation import queueing
from simulation.access import StaffRequest, staff_only
from simulation.forms import ERRORS, TwinsForm, accepted_steps
from simulation.models import Experiment, Run, Twin
from simulation.views.episodes import PER_PAGE


@staff_only
@require_http_methods(["GET", "HEAD", "POST"])
def twins(request: StaffRequest) -> HttpResponse:
    form = TwinsForm(request.POST if request.method == "POST" else None)
    if form.is_valid():
        return redirect("simulation:run", code=_order(form, request).code)
    step = _step(request)
    page = Paginator(_listed(step), PER_PAGE).get_page(request.GET.get("page"))
    context = {"form": form, "page": page, "step": step, "pools": _pools()}
    return render(request, "simulation/twins.html", context, status=422 if form.errors else 200)


@staff_only
@require_POST
def retry_twin(request: StaffRequest, code: UUID) -> HttpResponse:
    twin = get_object_or_404(Twin, code=code)
    if not queueing.retry_twin(twin):
        messages.info(request, "This twin was not queued again: only a failed or stopped one is.")
    if request.POST.get("from") == "run":
        return redirect("simulation:run", code=twin.run.code)
    return redirect(reverse("simulation:twins"))


def _order(form: TwinsForm, request: StaffRequest) -> Run:
    wanted = form.cleaned_data
    return queueing.queue_twins(
        accepted_steps(wanted["experiments"]),
        ERRORS[wanted["error"]],
        wanted["cast"],
        wanted["per_transition"],
        wanted["seed"],
        request.user,
        wanted["submission_id"],
    )


def _step(request: StaffRequest) -> UUID | None:
    """The step whose twins alone are wanted, if the address names one."""
    try:
        return UUID(request.GET.get("step", ""))
    except ValueError:
        return None


def _listed(step: UUID | None) -> QuerySet[Twin]:
    rows = Twin.objects.select_related("run", "transition__episode__experiment")
    rows = rows.defer(
        "outcome",
        "transition__step",
        "transition__findings",
        "transition__episode__initial",
        "transition__episode__experiment__data",
    )
    rows = rows.filter(transition__code=step) if step else rows.order_by("-pk")
    told: QuerySet[Twin] = rows.annotate(fidelity=KT("outcome__fidelity"))
    return told


def _pools() -> dict[str, int]:
    """How many steps of each experiment twins can be made of."""
    counted = Experiment.objects.annotate(
        n=Count("episodes__transitions", filter=Q(episodes__transitions__in=accepted_steps(Experiment.objects.all())))
    )
    return dict(counted.values_list("slug", "n"))
