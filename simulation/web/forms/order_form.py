"""What every order has in common: experiments, a cast that can play here, prompts, a budget."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django import forms

from simulation.calls import spending
from simulation.casts import estimating, prompting, roster
from simulation.models import Experiment
from simulation.runs import queueing


class CastGroup(NamedTuple):
    """Casts of one kind, each with whether it is chosen."""

    title: str
    rows: Sequence[tuple[roster.CastLine | roster.RaterLine, bool]]


def cast_choices() -> list[tuple[str, str]]:
    return [(name, name) for name in roster.names()]


def prompt_set_choices() -> list[tuple[str, str]]:
    """The newest version of every set, by name and hash: what is chosen is what is played, whatever is imported since."""
    rows = prompting.current()
    return [(f"{row.name}@{row.sha256[:12]}", f"{row.name} ({row.sha256[:12]})") for row in rows]


def cost_field(help_text: str) -> forms.DecimalField:
    return forms.DecimalField(
        min_value=Decimal("0.01"),
        max_value=100_000,
        decimal_places=2,
        required=False,
        label="Budget in US dollars",
        help_text=help_text,
    )


class Budget(forms.Form):
    """What a run may use up before it stops."""

    max_cost = cost_field("The run stops cleanly before it could cost more, and can be continued with a larger budget.")
    max_tokens = forms.IntegerField(
        min_value=1000, max_value=10**12, required=False, label="Budget in tokens", help_text="All classes together."
    )
    max_minutes = forms.IntegerField(
        min_value=1,
        max_value=60 * 24 * 60,
        required=False,
        label="Budget in minutes",
        help_text="From the first call on.",
    )

    def limits(self) -> queueing.Limits:
        """The limits of a valid order as `queueing` takes them."""
        told = self.cleaned_data
        minutes = told["max_minutes"]
        return {
            "max_cost": told["max_cost"],
            "max_tokens": told["max_tokens"],
            "max_seconds": minutes * 60 if minutes else None,
        }


class OrderForm(Budget):
    """What an order of episodes and an order of twins have in common."""

    field_order = ("experiments", "cast", "seed", "prompt_set")

    experiments = forms.ModelMultipleChoiceField(
        Experiment.objects.defer("data"),
        to_field_name="slug",
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": "Choose at least one experiment."},
    )
    cast = forms.ChoiceField(choices=cast_choices, widget=forms.RadioSelect, initial="offline")
    seed = forms.IntegerField(
        min_value=0,
        max_value=queueing.MAX_SEED,
        required=False,
        help_text="The same seed plays the same. Empty: one is drawn.",
    )
    prompt_set = forms.ChoiceField(
        choices=prompt_set_choices,
        required=False,
        label="Prompts",
        help_text="Read by language models alone. Others are brought in with manage.py prompts import.",
    )
    submission_id = forms.RegexField(r"^[0-9a-f]{32}$", widget=forms.HiddenInput, initial=queueing.new_submission_id)

    def clean_cast(self) -> str:
        """A cast that could not say a word here is refused with what is missing."""
        name = str(self.cleaned_data["cast"])
        line = next((line for line in self.casts if line.name == name), None)
        if line is None or not line.ready:
            raise forms.ValidationError(f"{name} cannot play here: {line.why_not if line else 'it is gone'}.")
        return name

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if cleaned.get("max_cost") and cleaned.get("cast"):
            setup = roster.setup(cleaned["cast"])
            lacking = estimating.unpriced(setup, spending.prices_of(setup), setup.get("models", {}))
            if lacking:
                said = (
                    f"No price is known of {'; '.join(lacking)}. Add one (docs/models.md), or give a budget in tokens."
                )
                self.add_error("max_cost", said)
        return cleaned

    def terms(self) -> queueing.Terms:
        """The conditions of a valid order as `queueing` takes them."""
        return {**self.limits(), "prompt_set": self.cleaned_data["prompt_set"]}

    @cached_property
    def casts(self) -> list[roster.CastLine]:
        return roster.casts()

    def experiment_rows(self) -> list[tuple[Experiment, bool]]:
        """Every experiment and whether it is chosen."""
        chosen = self["experiments"].value() or []
        return [(row, row.slug in chosen) for row in self.fields["experiments"].queryset]  # type: ignore[attr-defined]  # a model field's

    def all_of_them(self) -> str:
        """The query that ticks every experiment."""
        return urlencode({"experiments": [row.slug for row, _ in self.experiment_rows()]}, doseq=True)

    def cast_groups(self) -> Iterator[CastGroup]:
        """Every cast and whether it is chosen, those of rules first."""
        chosen = self["cast"].value()
        for title, speaks in (("Rules alone: free, and the same every time", False), ("Language models", True)):
            rows = [(line, line.name == chosen) for line in self.casts if line.speaks is speaks]
            if rows:
                yield CastGroup(title, rows)
