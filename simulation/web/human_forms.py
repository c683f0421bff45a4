"""The form of an episode by a person: which experiment, who answers and judges, and by which rules."""

from functools import cached_property
from typing import Any, NamedTuple

from django import forms
from django.contrib.auth.models import User

from simulation.calls import run_usage
from simulation.casts import cast_availability, model_obstacles
from simulation.lab.errors import LabError
from simulation.models import Episode, Experiment
from simulation.runs import create
from simulation.web.cast_choices import UnavailableCasts, group_unavailable
from simulation.web.run_forms import StartForm, make_cost_field


class AnsweringCast(NamedTuple):
    """The transition model that answers a person and the classifiers that judge, identified by their `cast`."""

    cast: str
    transition_model: str
    judges: tuple[str, ...]
    why_not: str
    missing_keys: tuple[str, ...] = ()


def list_answering_casts() -> list[AnsweringCast]:
    """Return each combination of transition model and classifiers once, with the first cast that has it."""
    by_roles: dict[tuple[str, ...], AnsweringCast] = {}
    for info in cast_availability.list_casts():
        judges = (info.evidence_classifier, *info.panel)
        # The agent is replaced by the person, so casts that differ only in their agent are the same here.
        if (roles := (info.transition_model, *judges)) not in by_roles:
            by_roles[roles] = AnsweringCast(info.name, info.transition_model, judges, *_find_problem(info.name))
    return list(by_roles.values())


def _find_problem(cast: str) -> tuple[str, tuple[str, ...]]:
    """Return why this cast cannot answer a person, "" if it can, and the keys if they are all that is missing."""
    try:
        cast_availability.freeze_with_person(cast)
    except model_obstacles.NotReadyError as error:
        return str(error), error.missing_keys
    except LabError as error:
        return str(error), ()
    return "", ()


class HumanEpisodeForm(StartForm):
    """An episode by a person: the experiment, and who answers and judges."""

    error_field = "cast"
    field_order = ("experiment", "cast", "max_cost", "practice")
    experiment = forms.ModelChoiceField(
        Experiment.objects.defer("data").order_by("group", "name"),
        to_field_name="slug",
        empty_label="Choose one",
        error_messages={"required": "Choose an experiment."},
    )
    cast = forms.CharField(error_messages={"required": "Choose who answers."})
    max_cost = make_cost_field("If a language model answers. The episode stops before it could cost more.")
    practice = forms.BooleanField(
        required=False,
        label="Practice: a rejected action costs no step",
        help_text="Otherwise the rules are those of models: it uses up a step, and three in a row end the episode. "
        "Practice is stored with the run and excluded from benchmarks.",
    )

    @cached_property
    def available_casts(self) -> list[AnsweringCast]:
        return list_answering_casts()

    def list_options(self) -> list[tuple[AnsweringCast, bool]]:
        """Return every available answering cast and whether it is chosen; by default, the first one."""
        ready = [one for one in self.available_casts if not one.why_not]
        chosen = self["cast"].value() or next((one.cast for one in ready), "")
        return [(one, one.cast == chosen) for one in ready]

    def list_unavailable(self) -> UnavailableCasts | None:
        return group_unavailable("cast", [(one.cast, one) for one in self.available_casts])

    def clean_cast(self) -> str:
        chosen: str = self.cleaned_data["cast"]
        match = next((one for one in self.available_casts if one.cast == chosen), None)
        if match is None:
            raise forms.ValidationError(f"There is no cast {chosen[:60]!r}. Choose one from the list.")
        if match.why_not:
            raise forms.ValidationError(match.why_not)
        return chosen

    def start(self, user: User) -> Episode:
        data = self.cleaned_data
        chosen = data["experiment"], data["cast"], user, data["submission_id"]
        return create.create_human_episode(*chosen, data["practice"], max_cost=data["max_cost"])

    def build_size(self) -> dict[str, Any]:
        """Return the context of _order_size.html for one episode. Models that answer and judge may cost money."""
        answering = next((one for one, chosen in self.list_options() if chosen), None)
        experiments = list(Experiment.objects.defer("data").filter(slug=str(self["experiment"].value() or "")))
        worst = None
        if experiments and answering and not answering.why_not:
            worst = run_usage.estimate_episodes(cast_availability.freeze_with_person(answering.cast), experiments, 1)
        lines = (line for line in cast_availability.list_casts() if answering and line.name == answering.cast)
        size = {"total": len(experiments), "noun": "attempt", "factors": [], "needs": "Choose an experiment."}
        return {**size, "cast": next(lines, None), "worst": worst}
