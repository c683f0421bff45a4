"""The form that starts runs of twins, and how many it would create at which maximum cost."""

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from django import forms
from django.contrib.auth.models import User
from django.db.models import QuerySet

from simulation.calls import run_usage
from simulation.casts import cast_availability
from simulation.lab.deviations import DEFAULT_SIZES, SizeRange, parse_sizes
from simulation.lab.errors import LabError
from simulation.models import Episode, Experiment, Run, Transition
from simulation.runs import create, list_accepted_steps
from simulation.web.run_forms import RunForm, parse_number
from wetbench_site.text import format_count


class TwinsForm(RunForm):
    """A run of twins of the accepted steps of the chosen experiments, with the chosen errors.

    Links from a run or from the list of episodes limit the steps to those of the run or the episodes.
    """

    run = forms.ModelChoiceField(
        Run.objects.defer("setup").filter(kind="episodes"),
        to_field_name="code",
        required=False,
        widget=forms.HiddenInput,
        error_messages={"invalid_choice": "The run of these episodes no longer exists."},
    )
    episodes = forms.ModelMultipleChoiceField(
        Episode.objects.only("code", "replicate"),
        to_field_name="code",
        required=False,
        widget=forms.MultipleHiddenInput,
    )
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
    sizes = forms.CharField(
        required=False,
        max_length=20,
        initial="10-40",
        label="Size of subtle numeric errors in percent",
        help_text="Smallest and largest deviation from the true number. Blank: 10-40. Raters cannot be expected to see errors"
        " below 10 %; results show such twins separately. Language models choose their own sizes.",
    )
    per_transition = forms.IntegerField(
        min_value=1, max_value=5, initial=1, label="Twins per step and error", help_text="1 to 5."
    )

    def clean_sizes(self) -> SizeRange:
        """Return the range of sizes. Raise ValidationError if it is none."""
        try:
            return parse_sizes(self.cleaned_data["sizes"]) if self.cleaned_data["sizes"] else DEFAULT_SIZES
        except LabError as error:
            raise forms.ValidationError(str(error)) from error

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        chosen = cleaned.get("experiments")
        # Counted when the form is checked: steps can be added while it is open.
        steps = self.list_steps(chosen).count() if chosen else 0
        sample = cleaned.get("sample") or 0
        if chosen and not steps:
            self.add_error("experiments", "These experiments have no accepted steps yet. Run episodes first.")
        elif chosen and sample > steps:
            self.add_error("sample", f"The sample of {sample:,} exceeds the {steps:,} steps of these experiments.")
        # Rules are deterministic: the same step would give the same outcome.
        line = self.find_cast(cleaned.get("cast"))
        if cleaned.get("error") == "none" and cleaned.get("cast") and not (line and line.answers_by_model):
            message = "Rules would only repeat the original outcome. Choose a cast whose transition model is a language model."
            self.add_error("error", message)
        return cleaned

    def start(self, user: User) -> Run:
        data = self.cleaned_data
        steps, errors = self.list_steps(data["experiments"]), create.PERTURBATIONS[data["error"]]
        size = data["cast"], data["per_transition"], data["seed"], user, data["submission_id"], data["sample"]
        return create.create_twin_run(steps, errors, *size, sizes=data["sizes"], **self.get_options())

    def list_steps(self, experiments: Iterable[Experiment]) -> QuerySet[Transition]:
        """Return the accepted steps of these experiments within the limit of the form."""
        steps, limit = list_accepted_steps(experiments), self.limit
        if limit.get("run"):
            steps = steps.filter(episode__run__code=limit["run"])
        if limit.get("episodes"):
            steps = steps.filter(episode__code__in=limit["episodes"])
        return steps

    @property
    def limit(self) -> dict[str, Any]:
        """The codes of the run and of the episodes that the steps are limited to. Invalid ones limit to nothing."""
        run, episodes = self["run"].value(), self["episodes"].value() or []
        return {"run": _parse_code(run) if run else None, "episodes": [_parse_code(code) for code in episodes]}

    def describe_limit(self) -> str:
        limit = self.limit
        if limit["episodes"]:
            return f"the {format_count(len(limit['episodes']), 'chosen episode')}"
        run = Run.objects.filter(code=limit["run"]).first() if limit["run"] else None
        return f"the run of {run.created_at:%-d %b %Y, %H:%M} UTC, cast {run.cast}" if run else ""

    def build_size(self, pools: Mapping[str, int]) -> dict[str, Any]:
        """Return the context of _order_size.html: accepted steps times errors times twins per step and error.

        `pools` has the number of accepted steps of each experiment by slug.
        """
        steps = sum(pools.get(row.slug, 0) for row in self.list_chosen_experiments())
        # A sample larger than the pool is an error of the form; here the pool is the limit.
        steps = min(steps, parse_number(self["sample"].value(), 1_000_000) or steps)
        errors = len(create.PERTURBATIONS.get(str(self["error"].value()), ()))
        each = parse_number(self["per_transition"].value(), 5)
        line, total = self.find_cast(self["cast"].value()), steps * errors * each
        worst = None
        if line and line.is_ready and total:
            worst = run_usage.estimate_twins(cast_availability.describe_cast(line.name), total)
        factors = [(steps, "accepted step"), (errors, "error"), (each, "time")]
        needs = "Choose an experiment with accepted steps, and 1 to 5 twins per step and error."
        return {"total": total, "noun": "twin", "factors": factors, "needs": needs, "cast": line, "worst": worst}


def _parse_code(written: object) -> UUID:
    try:
        return UUID(str(written))
    except ValueError:
        return UUID(int=0)
