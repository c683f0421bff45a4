"""What staff may order: episodes and twins."""

from typing import Any
from urllib.parse import urlencode

from django import forms

from simulation import casting, queueing
from simulation.lab.outcomes import Perturbation
from simulation.models import Episode, Experiment, Transition

ERRORS = {
    "both": (Perturbation.OBVIOUS, Perturbation.SUBTLE),
    "obvious": (Perturbation.OBVIOUS,),
    "subtle": (Perturbation.SUBTLE,),
}


def cast_choices() -> list[tuple[str, str]]:
    return [(info.name, info.name) for info in casting.CASTS.values()]


class OrderForm(forms.Form):
    """What an order of episodes and an order of twins have in common."""

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
    submission_id = forms.RegexField(r"^[0-9a-f]{32}$", widget=forms.HiddenInput, initial=queueing.new_submission_id)

    def experiment_rows(self) -> list[tuple[Experiment, bool]]:
        """Every experiment and whether it is chosen."""
        chosen = self["experiments"].value() or []
        return [(row, row.slug in chosen) for row in self.fields["experiments"].queryset]  # type: ignore[attr-defined]  # a model field's

    def all_of_them(self) -> str:
        """The query that ticks every experiment."""
        return urlencode({"experiments": [row.slug for row, _ in self.experiment_rows()]}, doseq=True)

    def cast_rows(self) -> list[tuple[casting.CastInfo, bool]]:
        """Every cast and whether it is chosen."""
        return [(info, info.name == self["cast"].value()) for info in casting.CASTS.values()]


class EpisodesForm(OrderForm):
    """An order of episodes: each chosen experiment, so many more replicates."""

    replicates = forms.IntegerField(
        min_value=1, max_value=100, initial=3, help_text="1 to 100 more of each experiment, numbered on from the last."
    )
    manifest = forms.BooleanField(
        required=False,
        label="Agents may ask for more materials (ManifestMaterials)",
        help_text="Only what the experiment's own list offers. Such episodes are no benchmark.",
    )


class TwinsForm(OrderForm):
    """An order of twins: each accepted step of the chosen experiments, with these errors."""

    error = forms.ChoiceField(
        choices=[
            ("both", "both: one obvious and one subtle twin"),
            ("obvious", "obvious (Error Type 1)"),
            ("subtle", "subtle (Error Type 2)"),
        ],
        widget=forms.RadioSelect,
        initial="both",
    )
    per_transition = forms.IntegerField(
        min_value=1, max_value=5, initial=1, label="Twins per step and error", help_text="1 to 5."
    )

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        chosen = cleaned.get("experiments")
        if chosen and not accepted_steps(chosen).exists():
            self.add_error("experiments", "No accepted step of these experiments is stored yet: play episodes first.")
        return cleaned


class EpisodeFilter(forms.Form):
    """Which episodes a list shows; unknown values are ignored."""

    experiment = forms.ModelChoiceField(
        Experiment.objects.defer("data"), to_field_name="slug", required=False, empty_label="All experiments"
    )
    cast = forms.ChoiceField(choices=lambda: [("", "All casts"), *cast_choices()], required=False)
    status = forms.ChoiceField(choices=[("", "Any status"), *Episode.STATUSES], required=False)

    def chosen(self) -> dict[str, Any]:
        """Field lookups of those filters that were set to something known."""
        self.is_valid()
        return {name: value for name, value in self.cleaned_data.items() if value}


def accepted_steps(experiments: Any) -> Any:
    """The steps twins are made of."""
    return Transition.objects.filter(accepted=True, episode__experiment__in=experiments, episode__counts=True)
