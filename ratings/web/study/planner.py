"""The planner of a draft: choose numbers of raters and items, see the precision, the power and the work to expect."""

import math
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path
from django.views.decorators.http import require_http_methods

from ratings.models import EVIDENCE, Study
from ratings.protocol import ProtocolError, StudyProtocol, study_protocol
from ratings.protocol.study_protocol import MAX_RATERS
from ratings.studies import StudyError, lifecycle, pool, study_sizes
from ratings.studies.study_sizes import ItemClasses
from ratings.web.decorators import StudyRequest, study_page
from wetbench_site.text import format_count

_NAMES = {
    "plausible": "Rated plausible, no planted error",
    "obvious": "Obvious errors detected",
    "subtle": "Subtle errors detected",
    "sufficient": "Judged sufficient",
    "kappa": "Agreement, mean kappa",
    "auc": "AUC of confidence, correct against incorrect",
}
_SIZES = ("raters", "per_item", "items", "planted", "subtle_share")
# Also those that the planning values of simulated answers assume (ratings.raters.simulated_raters).
_TRANSITION_VALUES = {"plausible": 93, "obvious": 90, "subtle": 60, "agreement": 20}
_ASSUMPTIONS = ("minutes", "plausible", "obvious", "subtle", "agreement")
# Records: judged sufficient by 70%; kappa 0.45, because people agree less on them than on planted errors.
_RECORD_VALUES = {"plausible": 70, "agreement": 45}
_SLIDER_ENDS = {"raters": 30, "per_item": 12, "items": 300}


class PlannerForm(forms.Form):
    """Numbers of a planned study and assumptions about its answers. Shares are in percent."""

    raters = forms.IntegerField(min_value=1, max_value=MAX_RATERS, label="Raters")
    per_item = forms.IntegerField(min_value=1, max_value=50, label="Ratings per item")
    items = forms.IntegerField(min_value=2, max_value=5000, label="Items")
    planted = forms.IntegerField(min_value=0, max_value=100, label="Items with a planted error (%)")
    subtle_share = forms.IntegerField(min_value=0, max_value=100, label="Subtle errors among them (%)")
    difference = forms.IntegerField(min_value=1, max_value=90, label="Difference to detect (percentage points)")
    minutes = forms.FloatField(min_value=0.1, max_value=120, label="Minutes per item")
    plausible = forms.IntegerField(min_value=1, max_value=99, label="Items without an error rated plausible (%)")
    obvious = forms.IntegerField(min_value=1, max_value=99, label="Obvious errors detected (%)")
    subtle = forms.IntegerField(min_value=1, max_value=99, label="Subtle errors detected (%)")
    agreement = forms.IntegerField(
        min_value=0, max_value=90, label="Correlation of two raters on one item (%)",
        help_text="Beyond what the class of the item explains.",
    )  # fmt: skip

    def __init__(self, *args: Any, study: Study, protocol: StudyProtocol, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        absent: set[str] = {"per_item"} if protocol.is_crossed else set()
        if study.kind == EVIDENCE:
            absent |= {"planted", "subtle_share", "obvious", "subtle"}
            self.fields["plausible"].label = "Records judged sufficient (%)"
        # The items of a crossover come in pairs, which the numbers here do not describe.
        absent |= {"items", "planted", "subtle_share"} if protocol.is_crossover else set()
        for name in absent:
            del self.fields[name]
        for name, field in self.fields.items():
            if name not in _ASSUMPTIONS:
                assert isinstance(field, forms.IntegerField)
                end = _SLIDER_ENDS.get(name, field.max_value or 100)
                field.widget.attrs |= {"data-slider": f"{field.min_value} {end}"}

    @property
    def sizes(self) -> list[forms.BoundField]:
        return [self[name] for name in self.fields if name not in _ASSUMPTIONS]

    @property
    def assumptions(self) -> list[forms.BoundField]:
        return [self[name] for name in _ASSUMPTIONS if name in self.fields]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        raters, per_item = cleaned.get("raters"), cleaned.get("per_item")
        if raters and per_item and per_item > raters:
            self.add_error(
                "per_item",
                f"Is {per_item}; at most the number of raters, {raters}, because nobody rates an item twice.",
            )
        if cleaned.get("difference", 0) > cleaned.get("plausible", 100):
            self.add_error("difference", f"Is larger than the share it is subtracted from, {cleaned['plausible']}%.")
        return cleaned


class PlanLine(NamedTuple):
    """One headline number of the plan: its expected value and interval as text, and the interval of the draft."""

    name: str
    value: str
    margin: str
    draft_margin: str
    reason: str
    bar: tuple[float, float, float] | None  # low, value and high on a scale from 0 to 100


@study_page("admin")
@require_http_methods(["GET", "HEAD", "POST"])
def plan_study(request: StudyRequest) -> HttpResponse:
    """Show what a study of a chosen size can measure, or store that size in the draft."""
    study = request.study
    if not study.is_draft:
        messages.error(request, "Only a draft can be planned: the study has been opened.")
        return redirect("ratings:study", study.slug)
    protocol = study_protocol.load_protocol(study.protocol)
    current = _read_draft(study, protocol)
    given = request.POST if request.method == "POST" else request.GET
    # Parts that are missing, or all of them on the first visit, are those of the draft.
    form = PlannerForm(
        {**current, **{name: given[name] for name in current if name in given}}, study=study, protocol=protocol
    )
    if request.method == "POST" and form.is_valid() and _store_plan(request, protocol, form.cleaned_data):
        return redirect("ratings:planner", study.slug)
    context: dict[str, Any] = {"study": study, "form": form, "is_crossover": protocol.is_crossover}
    if form.is_valid():
        context |= _describe_plan(study, protocol, {**current, **form.cleaned_data}, current)
    status = 422 if request.method == "POST" and form.errors else 200
    return render(request, "ratings/study_planner.html", context, status=status)


def _read_draft(study: Study, protocol: StudyProtocol) -> dict[str, Any]:
    """Return the values of the form for the draft as it is; a draft without items is planned with 60."""
    classes, records = study_sizes.count_classes(study, protocol), study.kind == EVIDENCE
    per_item = protocol.ratings_per_item
    is_empty = classes.total < 2
    return {
        "raters": per_item if protocol.is_crossed else max(per_item, protocol.raters or 0),
        "per_item": per_item,
        "items": 60 if is_empty else classes.total,
        "planted": (0 if records else 50) if is_empty else round(100 * classes.planted / classes.total),
        "subtle_share": round(100 * classes.subtle / classes.planted) if classes.planted else 50,
        "difference": 15,
        "minutes": study_sizes.get_minutes_per_item(study),
        **_TRANSITION_VALUES,
        **(_RECORD_VALUES if records else {}),
    }


def _count_planned(values: Mapping[str, Any]) -> ItemClasses:
    planted = round(values["items"] * values["planted"] / 100)
    subtle = round(planted * values["subtle_share"] / 100)
    return ItemClasses(values["items"] - planted, planted - subtle, subtle)


def _describe_plan(
    study: Study, protocol: StudyProtocol, values: dict[str, Any], current: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what the page shows of a plan with these values of the form, and of the draft as it is."""
    # It imports scipy: a second and 100 MB that most web processes never need.
    plan = import_module("ratings.stats.planning.study_plan")
    raters = values["raters"]
    values = values | ({"per_item": raters} if protocol.is_crossed else {})
    assumed = plan.PlanningValues(
        *(values[name] / 100 for name in ("plausible", "obvious", "subtle")), rho_item=values["agreement"] / 100
    )
    expect = plan.expect_sufficiency if study.kind == EVIDENCE else plan.expect_plausibility
    shape = plan.StudyShape(*_count_planned(values), raters, values["per_item"])
    draft_shape = plan.StudyShape(*study_sizes.count_classes(study, protocol), current["raters"], current["per_item"])
    power = plan.compute_power(shape, assumed, values["difference"] / 100)
    pairs = zip(expect(shape, assumed), expect(draft_shape, assumed), strict=True)
    each = shape.ratings / raters
    hours = study_sizes.estimate_hours(study, each, values["minutes"])
    return {
        "lines": [_build_line(planned, draft) for planned, draft in pairs],
        "power": power,
        "needed": plan.count_items_needed(shape, assumed),
        "targets": {"kappa": plan.KAPPA_WIDTH, "null": plan.KAPPA_NULL, "auc": plan.AUC_WIDTH},
        # More digits would promise too much: at most 99%, and whole points, rounded up.
        "power_percent": None if power.value is None else min(99, round(100 * power.value)),
        "smallest_points": None if power.smallest is None else math.ceil(round(100 * power.smallest, 6)),
        "values": values, "shape": shape, "each": -(-shape.ratings // raters), "hours": hours, "all_hours": hours * raters,
        "is_changed": not draft_shape.items or any(values[name] != current[name] for name in _SIZES), "has_draft_items": draft_shape.items,
    }  # fmt: skip


def _build_line(planned: Any, draft: Any) -> PlanLine:
    is_share, value = planned.kind == "share", planned.value
    shown = "–" if value is None else f"{value:.0%}" if is_share else f"{value:.2f}"
    bar = None
    if value is not None and planned.half_width is not None:
        # In percent of the scale from 0 to 1; an interval that would leave it ends there.
        ends = (max(0.0, value - planned.half_width), value, min(1.0, value + planned.half_width))
        bar = (100 * ends[0], 100 * ends[1], 100 * ends[2])
    margin, draft_margin = (_format_margin(one.half_width, is_share) for one in (planned, draft))
    return PlanLine(_NAMES[planned.key], shown, margin, draft_margin, planned.reason, bar)


def _format_margin(half_width: float | None, is_share: bool) -> str:
    if half_width is None:
        return "no interval"
    return f"± {100 * half_width:.0f} points" if is_share else f"± {half_width:.2f}"


def _store_plan(request: StudyRequest, protocol: StudyProtocol, values: Mapping[str, Any]) -> bool:
    """Store the numbers of items, ratings per item and raters in the draft. Return whether this worked."""
    study = request.study
    before = study_sizes.compute_sizes(study)
    per_item = values.get("per_item", values["raters"])
    full = {**_read_draft(study, protocol), **values}
    try:
        document = {**study.protocol, "ratings_per_item": per_item, "raters": values["raters"]}
        if not protocol.is_crossover:
            cast = pool.list_stocked_casts()[0]
            document = study_sizes.resize_document(study, _count_planned(full), per_item, values["raters"], cast)
        if problems := lifecycle.find_opening_problems(document):
            raise ProtocolError(problems)
        lifecycle.edit_draft(study, study_protocol.load_protocol(document), request.user, "size")
    except (ProtocolError, StudyError) as error:
        messages.error(request, f"The draft was not changed. {error}.")
        return False
    after = study_sizes.compute_sizes(Study.objects.get(pk=study.pk))
    texts = [
        f"{format_count(one.items, 'item')} ({one.percent_planted}% with a planted error)"
        + (f", {format_count(one.raters, 'rater')}" if one.raters else "")
        + f", {format_count(one.ratings, 'rating')}"
        for one in (after, before)
    ]
    messages.success(request, f"The draft now has {texts[0]}. Before: {texts[1]}.")
    return True


urls: list[URLPattern] = [path("studies/<slug:slug>/planner/", plan_study, name="planner")]
