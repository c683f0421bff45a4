"""The common parts of run forms: experiments, an available cast, prompts, a budget."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django import forms

from simulation.calls import run_usage
from simulation.casts import cast_availability, cost_estimate, prompt_store
from simulation.models import Experiment
from simulation.runs import create


class CastGroup(NamedTuple):
    """Casts of one kind, each with whether it is chosen."""

    title: str
    rows: Sequence[tuple[cast_availability.CastOption | cast_availability.RaterOption, bool]]


def list_cast_choices() -> list[tuple[str, str]]:
    return [(name, name) for name in cast_availability.list_names()]


def list_prompt_sets() -> list[tuple[str, str]]:
    """Return the newest version of every set, by name and hash, so that a later import does not change the choice."""
    rows = prompt_store.list_current()
    return [(f"{row.name}@{row.sha256[:12]}", f"{row.name} ({row.sha256[:12]})") for row in rows]


def make_cost_field(help_text: str) -> forms.DecimalField:
    return forms.DecimalField(
        min_value=Decimal("0.01"),
        max_value=100_000,
        decimal_places=2,
        required=False,
        label="Budget in US dollars",
        help_text=help_text,
    )


class BudgetFields(forms.Form):
    """The limits at which a run stops."""

    max_cost = make_cost_field("The run stops before it could cost more, and can be continued with a larger budget.")
    max_tokens = forms.IntegerField(
        min_value=1000, max_value=10**12, required=False, label="Budget in tokens", help_text="All classes together."
    )
    max_minutes = forms.IntegerField(
        min_value=1,
        max_value=60 * 24 * 60,  # 60 days
        required=False,
        label="Budget in minutes",
        help_text="From the first call.",
    )

    def get_limits(self) -> create.RunLimits:
        """Return the limits of a valid form as `create` expects them."""
        data = self.cleaned_data
        minutes = data["max_minutes"]
        return {
            "max_cost": data["max_cost"],
            "max_tokens": data["max_tokens"],
            "max_seconds": minutes * 60 if minutes else None,
        }


class RunForm(BudgetFields):
    """Fields common to runs of episodes and of twins."""

    field_order = ("experiments", "cast", "seed", "prompt_set")

    experiments = forms.ModelMultipleChoiceField(
        Experiment.objects.defer("data"),
        to_field_name="slug",
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": "Choose at least one experiment."},
    )
    cast = forms.ChoiceField(choices=list_cast_choices, widget=forms.RadioSelect, initial="offline")
    seed = forms.IntegerField(
        min_value=0,
        max_value=create.MAX_SEED,
        required=False,
        help_text="Runs with the same seed are reproducible. Leave blank for a random seed.",
    )
    prompt_set = forms.ChoiceField(
        choices=list_prompt_sets,
        required=False,
        label="Prompts",
        help_text="Used by language models only. Import others with manage.py prompts import.",
    )
    # Because of this id, a form that is sent twice creates only one run.
    submission_id = forms.RegexField(r"^[0-9a-f]{32}$", widget=forms.HiddenInput, initial=create.create_submission_id)

    def clean_cast(self) -> str:
        """Return the cast's name. Raise ValidationError, which states what is missing, if the cast is not available."""
        name = str(self.cleaned_data["cast"])
        # Checked again: a key can be removed while the form is open.
        line = next((line for line in self.available_casts if line.name == name), None)
        if line is None or not line.is_ready:
            raise forms.ValidationError(f"{name} is not available: {line.why_not if line else 'it no longer exists'}.")
        return name

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        # A budget in dollars cannot be enforced without prices, and would let the run cost anything.
        if cleaned.get("max_cost") and cleaned.get("cast"):
            setup = cast_availability.describe_cast(cleaned["cast"])
            lacking = cost_estimate.find_unpriced(setup, run_usage.get_todays_prices(setup), setup.get("models", {}))
            if lacking:
                message = (
                    f"No price is known for {'; '.join(lacking)}. Add one (docs/models.md), or set a budget in tokens."
                )
                self.add_error("max_cost", message)
        return cleaned

    def get_options(self) -> create.RunOptions:
        """Return the options of a valid form as `create` expects them."""
        return {**self.get_limits(), "prompt_set": self.cleaned_data["prompt_set"]}

    # Computed once per form: it queries the database and is used by several fields.
    @cached_property
    def available_casts(self) -> list[cast_availability.CastOption]:
        return cast_availability.list_casts()

    def list_experiments(self) -> list[tuple[Experiment, bool]]:
        """Return every experiment and whether it is chosen."""
        chosen = self["experiments"].value() or []
        return [(row, row.slug in chosen) for row in self.fields["experiments"].queryset]  # type: ignore[attr-defined]  # a model field's

    def all_experiments_query(self) -> str:
        """Return the query string that ticks every experiment."""
        return urlencode({"experiments": [row.slug for row, _ in self.list_experiments()]}, doseq=True)

    def group_casts(self) -> Iterator[CastGroup]:
        """Yield every cast and whether it is chosen, rule-based ones first."""
        chosen = self["cast"].value()
        for title, has_model in (("Rule-based: no API cost, reproducible", False), ("Language models", True)):
            rows = [(line, line.name == chosen) for line in self.available_casts if line.speaks is has_model]
            if rows:
                yield CastGroup(title, rows)
