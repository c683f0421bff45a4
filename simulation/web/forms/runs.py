"""Forms to start runs of episodes and of twins, and to filter episodes."""

from typing import Any

from django import forms

from simulation.lab.outcomes import Perturbation
from simulation.models import Episode, Experiment
from simulation.runs import create, list_accepted_steps
from simulation.web.forms.run_form import RunForm, list_cast_choices

ERRORS = {
    "both": (Perturbation.OBVIOUS, Perturbation.SUBTLE),
    "obvious": (Perturbation.OBVIOUS,),
    "subtle": (Perturbation.SUBTLE,),
    "none": (Perturbation.NONE,),
}


class EpisodesForm(RunForm):
    """A run of episodes: each chosen experiment with this many further replicates."""

    replicates = forms.IntegerField(
        min_value=1,
        max_value=100,
        initial=3,
        help_text="1 to 100 further replicates per experiment, numbered consecutively.",
    )
    manifest = forms.BooleanField(
        required=False,
        label="Agents may request more materials (ManifestMaterials)",
        help_text="Only from the experiment's own list. Episodes run with this option are excluded from benchmarks.",
    )


class TwinsForm(RunForm):
    """A run of twins of the accepted steps of the chosen experiments, with the chosen errors."""

    error = forms.ChoiceField(
        choices=[
            ("both", "both: one obvious and one subtle twin"),
            ("obvious", "obvious (Error Type 1)"),
            ("subtle", "subtle (Error Type 2)"),
            ("none", "none: the plain answer of the chosen cast's transition model"),
        ],
        widget=forms.RadioSelect,
        initial="both",
    )
    sample = forms.IntegerField(
        min_value=1,
        max_value=1_000_000,
        required=False,
        label="Sample of steps",
        help_text="Number of steps to create twins of, spread over experiments and actions and drawn by the seed. Leave blank for all steps.",
    )
    per_transition = forms.IntegerField(
        min_value=1, max_value=5, initial=1, label="Twins per step and error", help_text="1 to 5."
    )

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        chosen = cleaned.get("experiments")
        # Counted when the form is checked: steps can be added while it is open.
        steps = list_accepted_steps(chosen).count() if chosen else 0
        sample = cleaned.get("sample") or 0
        if chosen and not steps:
            self.add_error("experiments", "These experiments have no accepted steps yet. Run episodes first.")
        elif chosen and sample > steps:
            self.add_error("sample", f"The sample of {sample:,} exceeds the {steps:,} steps of these experiments.")
        # Rules are deterministic: the same step would give the same outcome.
        if cleaned.get("error") == "none" and cleaned.get("cast") and not self._answers_by_model(cleaned["cast"]):
            message = "Rules would only repeat the original outcome. Choose a cast whose transition model is a language model."
            self.add_error("error", message)
        return cleaned

    def _answers_by_model(self, name: str) -> bool:
        return any(line.answers_by_model for line in self.available_casts if line.name == name)


class EpisodeFilter(forms.Form):
    """Filters of a list of episodes; unknown values are ignored."""

    experiment = forms.ModelChoiceField(
        Experiment.objects.defer("data"), to_field_name="slug", required=False, empty_label="All experiments"
    )
    cast = forms.ChoiceField(
        choices=lambda: [("", "All casts"), *list_cast_choices(), (create.HUMAN_CAST, create.HUMAN_CAST)],
        required=False,
    )
    status = forms.ChoiceField(choices=[("", "Any status"), *Episode.STATUSES], required=False)

    def get_lookups(self) -> dict[str, Any]:
        """Return field lookups of the filters with a known value."""
        # Unknown values are ignored, because a filter is part of links that outlive its options.
        self.is_valid()
        return {name: value for name, value in self.cleaned_data.items() if value}
