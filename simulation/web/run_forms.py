"""Forms to start runs of episodes and set budgets, and what a form would create at which maximum cost."""

from collections.abc import Iterator
from decimal import Decimal
from functools import cached_property
from typing import Any, Self, TypeVar

from django import forms
from django.contrib.auth.models import User
from django.utils import timezone

from simulation.calls import run_usage
from simulation.casts import cast_availability, cost_estimate, prompt_store
from simulation.lab.errors import LabError
from simulation.lab.truths import truth_seeds
from simulation.models import Episode, Experiment, Job, Run
from simulation.runs import create, masked_run_jobs
from simulation.web.access import StaffRequest
from simulation.web.cast_choices import CastGroup, UnavailableCasts, group_unavailable, list_cast_choices
from simulation.web.mask_fields import MAX_DRAWS, MaskFields, count_masks, parse_numbers

# The button that only updates the size on pages without scripts, beside the one that starts the run.
SIZE_BUTTON = "size"
# The buttons that choose all experiments or none; with scripts, choose.js does it in place.
SELECT_BUTTON = "select"
MAX_MINUTES = 60 * 24 * 60  # 60 days
Limit = TypeVar("Limit", Decimal, int)


def list_prompt_sets() -> list[tuple[str, str]]:
    """Return the newest version of every set, by name and hash, so that a later import does not change the choice."""
    rows = prompt_store.list_current()
    return [(f"{row.name}@{row.sha256[:12]}", f"{row.name} ({row.sha256[:12]})") for row in rows]


def make_cost_field(help_text: str) -> forms.DecimalField:
    limits: dict[str, Any] = {"min_value": Decimal("0.01"), "max_value": 100_000, "decimal_places": 2}
    return forms.DecimalField(**limits, required=False, label="Budget in US dollars", help_text=help_text)


class StartForm(forms.Form):
    """A form that starts something, at most once however often it is sent."""

    error_field: str | None = None  # where the reason is shown if it cannot be started
    submission_id = forms.RegexField(r"^[0-9a-f]{32}$", widget=forms.HiddenInput, initial=create.create_submission_id)

    def try_start(self, request: StaffRequest) -> Run | Episode | Job | None:
        """Start what the form requests and return it.

        Return None if the form is not valid or only its size was requested, or if something that it needs was removed;
        then the reason is among the form's errors.
        """
        if not self.is_valid() or SIZE_BUTTON in request.POST:
            return None
        try:
            return self.start(request.user)
        except LabError as error:
            self.add_error(self.error_field, str(error))
            return None

    def start(self, user: User) -> Run | Episode | Job:
        """Create the run or episode, or the job that creates it. Every form overrides this; raises LabError with the reason if it cannot be created."""
        raise NotImplementedError


class BudgetFields(forms.Form):
    """The limits at which a run stops."""

    max_cost = make_cost_field("The run stops before it could cost more, and can be continued with a larger budget.")
    max_tokens = forms.IntegerField(
        min_value=1000, max_value=10**12, required=False, label="Budget in tokens", help_text="All classes together."
    )
    max_minutes = forms.IntegerField(
        min_value=1, max_value=MAX_MINUTES, required=False, label="Budget in minutes", help_text="From the first call."
    )

    def get_limits(self) -> create.RunLimits:
        data = self.cleaned_data
        seconds = data["max_minutes"] * 60 if data["max_minutes"] else None
        return {"max_cost": data["max_cost"], "max_tokens": data["max_tokens"], "max_seconds": seconds}


class BudgetForm(BudgetFields):
    """The total limits of a run, including what it has used. Blank: no limit of that kind."""

    max_cost = forms.DecimalField(
        min_value=Decimal(0), max_digits=12, decimal_places=6, required=False, label="Maximum cost in US dollars"
    )
    max_tokens = forms.IntegerField(min_value=1, max_value=10**12, required=False, label="Maximum tokens")
    max_minutes = forms.IntegerField(
        min_value=1, max_value=MAX_MINUTES, required=False, label="Maximum time in minutes, from the first call"
    )

    def __init__(self, run: Run, *args: Any, **kwargs: Any) -> None:
        self.run, self.taken = run, run_usage.check_budget_counters(run)
        # Rounded up: rounding down would show a limit that has already passed.
        minutes = None if run.max_seconds is None else -(-run.max_seconds // 60)
        # No exponent, because people read and edit this number.
        cost = None if run.max_cost is None else f"{run.max_cost.normalize():f}"
        kwargs["initial"] = {"max_cost": cost, "max_tokens": run.max_tokens, "max_minutes": minutes}
        super().__init__(*args, **kwargs)

    # A limit below what is used would stop the run again with its first call.
    def clean_max_cost(self) -> Decimal | None:
        taken = self.taken.ledger_cost
        return self._check_above(self.cleaned_data["max_cost"], taken, f"${taken.normalize():f}")

    def clean_max_tokens(self) -> int | None:
        taken = self.taken.ledger_tokens
        return self._check_above(self.cleaned_data["max_tokens"], taken, f"{taken:,} tokens")

    def clean_max_minutes(self) -> int | None:
        began = self.run.first_call_at
        # Whole minutes that have passed; the current one still counts as available.
        passed = 0 if began is None else int((timezone.now() - began).total_seconds() // 60)
        return self._check_above(self.cleaned_data["max_minutes"], passed, f"{passed:,} minutes")

    def _check_above(self, limit: Limit | None, taken: Limit, words: str) -> Limit | None:
        if limit is not None and limit <= taken:
            raise forms.ValidationError(f"The run has already used {words}. Enter a larger value, or leave it blank.")
        return limit


class RunForm(StartForm, BudgetFields):
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

    @classmethod
    def read_request(cls, request: StaffRequest, linked: dict[str, Any]) -> Self:
        """Return the form as sent, or with the values of a link.

        After "Select all" or "Select none", everything typed is kept and nothing is checked.
        """
        if SELECT_BUTTON in request.POST:
            fields = cls.base_fields.items()
            typed = {name: field.widget.value_from_datadict(request.POST, {}, name) for name, field in fields}
            is_all = request.POST[SELECT_BUTTON] == "all"
            slugs = list(Experiment.objects.values_list("slug", flat=True)) if is_all else []
            return cls(initial={**typed, "experiments": slugs})
        return cls(request.POST) if request.method == "POST" else cls(initial=linked)

    def clean_cast(self) -> str:
        """Return the cast's name. Raise ValidationError, which states what is missing, if the cast is not available."""
        name = str(self.cleaned_data["cast"])
        # Checked again: a key can be removed while the form is open.
        line = self.find_cast(name)
        if line is None or not line.is_ready:
            raise forms.ValidationError(f"{name} is not available: {line.why_not if line else 'it no longer exists'}.")
        return name

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        # A budget in dollars cannot be enforced without prices, and would let the run cost anything.
        if cleaned.get("max_cost") and cleaned.get("cast"):
            setup = cast_availability.describe_cast(cleaned["cast"])
            prices = run_usage.get_todays_prices(setup)
            if names := "; ".join(cost_estimate.find_unpriced(setup, prices, setup.get("models", {}))):
                message = f"No price is known for {names}. Add one (docs/models.md), or set a budget in tokens."
                self.add_error("max_cost", message)
        return cleaned

    def get_options(self) -> create.RunOptions:
        return {**self.get_limits(), "prompt_set": self.cleaned_data["prompt_set"]}

    # Computed once per form: it queries the database and is used by several fields.
    @cached_property
    def available_casts(self) -> list[cast_availability.CastOption]:
        return cast_availability.list_casts()

    def find_cast(self, name: object) -> cast_availability.CastOption | None:
        return next((line for line in self.available_casts if line.name == name), None)

    def list_experiments(self) -> list[tuple[Experiment, bool]]:
        chosen = self["experiments"].value() or []
        return [(row, row.slug in chosen) for row in self.fields["experiments"].queryset]  # type: ignore[attr-defined]  # a model field's

    def list_chosen_experiments(self) -> list[Experiment]:
        return [row for row, chosen in self.list_experiments() if chosen]

    def group_casts(self) -> Iterator[CastGroup]:
        """Yield the casts that can run here in groups, each with whether it is chosen."""
        chosen, ready = self["cast"].value(), [line for line in self.available_casts if line.is_ready]
        for title, has_model in (("Rule-based: no API cost, reproducible", False), ("Language models", True)):
            if rows := [(line, line.name == chosen) for line in ready if line.speaks is has_model]:
                yield CastGroup(title, rows)

    def list_unavailable(self) -> UnavailableCasts | None:
        return group_unavailable("cast", [(line.name, line) for line in self.available_casts])


class EpisodesForm(MaskFields, RunForm):
    """A run of episodes: each chosen experiment, or each of its masks, with this many further replicates."""

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

    truths = forms.ChoiceField(
        required=False,
        label="Hidden truths",
        choices=[
            (truth_seeds.VALIDATION, "validation: drawn anew for each replicate"),
            (truth_seeds.TEST, "test: drawn anew, for final results only"),
            (truth_seeds.TRAIN, "train: drawn anew, for trajectories to learn from"),
            (truth_seeds.REFERENCE, "reference: the same in every replicate"),
        ],
        initial=truth_seeds.VALIDATION,
        help_text="Concentrations, genotypes and other unknowns. Replicate 1 has the same truth for every cast.",
    )

    prompt_set = forms.ChoiceField(
        choices=lambda: [("", "wetbench, or wetbench-protocol with hidden steps"), *list_prompt_sets()],
        required=False,
        label="Prompts",
        help_text="Used by language models only. Import others with manage.py prompts import.",
    )

    def start(self, user: User) -> Run | Job:
        data = self.cleaned_data
        size = data["experiments"], data["cast"], data["replicates"], data["seed"]
        terms = data["manifest"], data["truths"] or truth_seeds.VALIDATION
        order = *size, user, data["submission_id"], *terms
        if masks := self.get_mask_order():
            return masked_run_jobs.request_masked_run(*order, masks, **self.get_options())
        return create.create_episode_run(*order, **self.get_options())

    def build_size(self) -> dict[str, Any]:
        """Return the context of _order_size.html: chosen experiments times replicates."""
        experiments, replicates = self.list_chosen_experiments(), parse_number(self["replicates"].value(), 100)
        hide = parse_numbers(self["hide"].value())
        masks = count_masks(hide, parse_number(self["draws"].value(), MAX_DRAWS)) if hide else 1
        line, total = self.find_cast(self["cast"].value()), len(experiments) * masks * replicates
        worst = None
        # Estimated only for a run that could start; other casts would raise.
        if line and line.is_ready and total:
            worst = run_usage.estimate_episodes(
                cast_availability.describe_cast(line.name), experiments, masks * replicates
            )
        factors = [(len(experiments), "experiment"), (replicates, "replicate")]
        if hide:
            factors.insert(1, (masks, "mask"))
        needs = "Choose at least one experiment and 1 to 100 replicates."
        return {"total": total, "noun": "episode", "factors": factors, "needs": needs, "cast": line, "worst": worst}


def parse_number(written: object, most: int) -> int:
    """Return an integer up to `most`; 0 for anything else."""
    text = str(written or "")
    # Short ASCII digits only: other digits are accepted by `int` but not by the form.
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 8 and int(text) <= most else 0
