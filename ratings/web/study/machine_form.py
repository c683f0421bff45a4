"""The form that requests ratings from a model or the checker, with the maximum cost of the request."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final

from django import forms
from django.db.models import TextField
from django.db.models.functions import Cast, Length

from ratings.models import EVIDENCE, Item, MachineRater, Study
from ratings.protocol import study_protocol
from ratings.raters.machines import machine_job, model_raters
from ratings.studies import StudyError
from simulation.casts import cast_availability
from simulation.casts.cost_estimate import CostEstimate
from simulation.lab.errors import LabError
from simulation.runs import RunLimits
from simulation.web.forms.run_form import BudgetFields, CastGroup

MEASURED: Final = 2000  # items whose prompts are built to estimate the cost: takes about a second
_CHECKER = cast_availability.RaterOption(
    model_raters.CHECKER,
    "The rule-based checker of WetBench, shown the blinded item only. No API cost, reproducible.",
)


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

    def list_unavailable(self) -> list[cast_availability.RaterOption]:
        """Return the model raters that cannot rate here, each with the reason."""
        return [line for line in self.available_raters if not line.is_ready]

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
    return {
        "total": total,
        "noun": "rating",
        "factors": [],
        "needs": "Choose a rater.",
        "cast": line,
        "worst": _estimate_maximum(form, line.name, total) if line is not None and total else None,
    }


def _estimate_maximum(form: MachineForm, cast: str, total: int) -> CostEstimate | None:
    """Return the maximum cost, from the prompts of the longest items. Each further item counts as the longest one."""
    try:
        rater = model_raters.preview_request(form.study, cast, context=form.get_requested_context())
    except (StudyError, LabError):  # the request itself will show what is wrong
        return None
    items = Item.objects.filter(study=form.study)
    if total > MEASURED:
        items = items.order_by(Length(Cast("payload", TextField())).desc())[:MEASURED]
    estimate = machine_job.estimate_max_cost(rater, items, max(0, total - MEASURED))
    return estimate and estimate._replace(assumes=_describe_assumptions(total))


def _describe_assumptions(total: int) -> str:
    assumptions = "every answer at its length limit, all allowed retries, no caching, one token per two bytes"
    if total > MEASURED:
        return f"{assumptions}; prompts of the {MEASURED:,} longest items, all others counted as the longest of these"
    return f"{assumptions}; the actual prompts of the items"
