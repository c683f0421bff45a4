"""The page of model raters of a study: request ratings and follow their progress. It shows nothing of their answers."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db.models import TextField
from django.db.models.functions import Cast, Length
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import URLPattern, path
from django.views.decorators.http import require_http_methods

from ratings.models import EVIDENCE, Item, MachineRater, Study
from ratings.protocol import study_protocol
from ratings.raters import model_raters
from ratings.studies import StudyError
from ratings.web.decorators import StudyRequest, study_page
from simulation.casts import cast_availability
from simulation.casts.cost_estimate import CostEstimate
from simulation.lab.errors import LabError
from simulation.runs import RunLimits
from simulation.web.cast_choices import CastGroup, UnavailableCasts, group_unavailable
from simulation.web.run_forms import SIZE_BUTTON, BudgetFields, BudgetForm
from wetbench_site.text import format_count

MEASURED: Final = 2000  # items whose prompts are built to estimate the cost: takes about a second
_CHECKER_TEXT = "The rule-based checker of WetBench, shown the blinded item only. No API cost, reproducible."
_CHECKER = cast_availability.RaterOption(model_raters.CHECKER, _CHECKER_TEXT)


class MachineForm(BudgetFields):
    """A request for ratings: the rater, what it is shown, and its budget."""

    field_order = ("cast", "context")

    cast = forms.ChoiceField(label="Rater", widget=forms.RadioSelect, error_messages={"required": "Choose a rater."})
    context = forms.ChoiceField(
        choices=[("no", "the item only"), ("yes", "the item with its goal and earlier steps")],
        widget=forms.RadioSelect,
        initial="no",
        required=False,
        label="What a model is shown",
        help_text="Some raters of this study see the goal and earlier steps and others do not. A model is one rater, so it sees one or the other.",
    )

    def __init__(self, study: Study, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.study = study
        ready = [(line.name, line.name) for line in self.available_raters if line.is_ready]
        self.fields["cast"].choices = ready  # type: ignore[attr-defined]  # a ChoiceField has them
        self.fields["cast"].initial = ready[0][0] if ready else ""
        # There is nothing to choose unless raters of the study see both kinds of screen.
        if study.kind == EVIDENCE or set(study_protocol.load_protocol(study.protocol).display.context) != {True, False}:
            del self.fields["context"]

    @cached_property
    def available_raters(self) -> list[cast_availability.RaterOption]:
        """All models and the checker, except those already requested for this study."""
        requested = set(MachineRater.objects.filter(study=self.study).values_list("cast", flat=True))
        checker = [] if self.study.kind == EVIDENCE else [_CHECKER]
        return [line for line in (*checker, *cast_availability.list_raters()) if line.name not in requested]

    def group_casts(self) -> Iterator[CastGroup]:
        """Yield the model raters that can rate here in groups, each with whether it is selected."""
        selected = self["cast"].value()
        ready = [line for line in self.available_raters if line.is_ready]
        models = [line for line in ready if line is not _CHECKER and not line.of_cast]
        kinds = {
            "Rule-based": [line for line in ready if line is _CHECKER],
            "Single models": models,
            "Casts: their first classifier rates, with its parameters": [line for line in ready if line.of_cast],
        }
        for title, lines in kinds.items():
            if lines:
                yield CastGroup(title, [(line, line.name == selected) for line in lines])

    def list_unavailable(self) -> UnavailableCasts | None:
        """Return the model raters that cannot rate here, with what each lacks."""
        return group_unavailable("model", [(line.name, line) for line in self.available_raters])

    def get_requested_context(self) -> bool | None:
        """Return the choice of context for `model_raters.request_ratings`, or None if there is nothing to choose."""
        if "context" not in self.fields or self["cast"].value() == model_raters.CHECKER:
            return None
        return str(self["context"].value()) == "yes"

    def get_limits_for_cast(self) -> RunLimits:
        return self.get_limits() if self.cleaned_data["cast"] != model_raters.CHECKER else {}


def build_size_context(form: MachineForm) -> dict[str, Any]:
    """Return the context of simulation/_order_size.html: the number of items and their maximum cost."""
    items = Item.objects.filter(study=form.study)
    line = next((line for line in form.available_raters if line.name == form["cast"].value()), None)
    total = items.count() if line is not None and line.is_ready else 0
    worst = _estimate_maximum(form, line.name, total) if line is not None and total else None
    texts = {"noun": "rating", "factors": [], "needs": "Choose a rater."}
    return {**texts, "total": total, "cast": line, "worst": worst}


def _estimate_maximum(form: MachineForm, cast: str, total: int) -> CostEstimate | None:
    """Return the maximum cost, from the prompts of the longest items. Each further item counts as the longest one."""
    try:
        rater = model_raters.preview_request(form.study, cast, context=form.get_requested_context())
    except (StudyError, LabError):  # the request itself will show what is wrong
        return None
    from ratings.raters import machine_raters  # imports all roles and their prompts, which few pages need

    items = Item.objects.filter(study=form.study)
    if total > MEASURED:
        items = items.order_by(Length(Cast("payload", TextField())).desc())[:MEASURED]
    estimate = machine_raters.estimate_max_cost(rater, items, max(0, total - MEASURED))
    assumptions = "every answer at its length limit, all allowed retries, no caching, one token per two bytes"
    of_longest = f"prompts of the {MEASURED:,} longest items, all others counted as the longest of these"
    prompts = of_longest if total > MEASURED else "the actual prompts of the items"
    return estimate and estimate._replace(assumes=f"{assumptions}; {prompts}")


@study_page("admin", "analyst")
@require_http_methods(["GET", "HEAD", "POST"])
def show_machine_raters(request: StudyRequest) -> HttpResponse:
    """Show the progress of each model rater and, for admins, a form for another. For htmx: only the maximum cost."""
    may_run = request.role in ("superuser", "admin")
    if request.method == "POST" and not may_run:
        raise Http404
    if request.method == "POST" and "rater" in request.POST:
        return _continue_rater(request)
    if not may_run or request.study.is_draft:
        if request.method == "POST":
            messages.error(request, "Open the study first: a draft has no frozen items yet.")
            return redirect("ratings:machines", request.study.slug)
        return _render_page(request, None, may_run)
    is_posted = request.method == "POST"
    if request.htmx:
        form = MachineForm(request.study, request.GET)
        return render(request, "simulation/_order_size.html", build_size_context(form))
    form = MachineForm(request.study, request.POST if is_posted else None)
    # Without JavaScript, a second button of the form requests only the cost.
    if is_posted and SIZE_BUTTON not in request.POST and form.is_valid() and _place_order(request, form):
        return redirect("ratings:machines", request.study.slug)
    return _render_page(request, form, True)


def _place_order(request: StudyRequest, form: MachineForm) -> bool:
    """Request the ratings. Return False, with the reason in the form, if that is not possible."""
    try:
        cast, context, limits = form.cleaned_data["cast"], form.get_requested_context(), form.get_limits_for_cast()
        order = model_raters.request_ratings(request.study, cast, context=context, by=request.user, **limits)
    except (StudyError, LabError) as error:
        form.add_error(None, str(error))
        return False
    _report_order(request, order)
    return True


def _continue_rater(request: StudyRequest) -> HttpResponse:
    """Continue a model rater of this study, retry its failed items, or continue it with another budget."""
    try:
        code = UUID(request.POST["rater"])
    except ValueError:
        raise Http404 from None
    rater = get_object_or_404(MachineRater.objects.select_related("run"), study=request.study, code=code)
    budget = BudgetForm(rater.run, request.POST) if rater.run and "budget" in request.POST else None
    if budget is not None and not budget.is_valid():
        return _render_page(request, MachineForm(request.study), True, budget)
    try:
        retry, limits = request.POST.get("do") == "retry", budget.get_limits() if budget else RunLimits()
        order = model_raters.request_ratings(request.study, rater.cast, retry=retry, by=request.user, **limits)
    except (StudyError, LabError) as error:
        messages.error(request, str(error))
    else:
        _report_order(request, order)
    return redirect("ratings:machines", request.study.slug)


def _report_order(request: StudyRequest, order: model_raters.RequestResult) -> None:
    rater_name = f"{order.rater.label}, {order.rater.name}"
    if order.job is None:
        messages.info(request, f"{rater_name}: no items left to rate.")
    else:
        n_left = format_count(order.owed, "item")
        messages.success(request, f"{rater_name}: {n_left} to rate, {model_raters.describe_input(order.rater)}.")


def _render_page(
    request: StudyRequest, form: MachineForm | None, may_run: bool, budget: BudgetForm | None = None
) -> HttpResponse:
    from ratings.raters import machine_raters

    lines = machine_raters.list_progress(request.study)
    # One budget form at a time: the first rater that has used up its budget, or the one whose form was just sent.
    stopped_by_budget = next((line for line in lines if line.is_out_of_budget), None) if may_run else None
    if budget is not None:
        stopped_by_budget = next((line for line in lines if line.rater.run_id == budget.run.pk), None)
    elif stopped_by_budget is not None and stopped_by_budget.rater.run:
        budget = BudgetForm(stopped_by_budget.rater.run)
    context = {"study": request.study, "role": request.role, "may_run": may_run, "lines": lines, "form": form}
    context |= {"held": stopped_by_budget, "budget": budget, **(build_size_context(form) if form is not None else {})}
    has_errors = (form is not None and form.errors) or (budget is not None and budget.errors)
    return render(request, "ratings/machines.html", context, status=422 if has_errors else 200)


urls: list[URLPattern] = [path("studies/<slug:slug>/machines/", show_machine_raters, name="machines")]
