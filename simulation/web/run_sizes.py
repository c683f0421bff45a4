"""What a run form would create, and its maximum cost. Unreadable values count as zero."""

from collections.abc import Mapping
from typing import Any

from simulation.calls import run_usage
from simulation.casts import cast_availability
from simulation.casts.cost_estimate import CostEstimate
from simulation.lab.errors import LabError
from simulation.models import Experiment
from simulation.web.forms.human_agent import HumanEpisodeForm
from simulation.web.forms.run_form import RunForm
from simulation.web.forms.runs import ERRORS, EpisodesForm, TwinsForm

# The button that only updates the size on pages without scripts, beside the one that starts the run.
SIZE_BUTTON = "size"


def size_of_episodes(form: EpisodesForm) -> dict[str, Any]:
    """Return the context of _order_size.html: chosen experiments times replicates."""
    experiments, replicates = _chosen_experiments(form), _parse_number(form["replicates"].value(), 100)
    line, total = _chosen_cast(form), len(experiments) * replicates
    ready = line is not None and line.is_ready and total
    return {
        "total": total,
        "noun": "episode",
        "factors": [(len(experiments), "experiment"), (replicates, "replicate")],
        "needs": "Choose at least one experiment and 1 to 100 replicates.",
        "cast": line,
        # Estimated only for a run that could start; other casts would raise.
        "worst": run_usage.estimate_episodes(cast_availability.describe_cast(line.name), experiments, replicates)
        if line and ready
        else None,
    }


def size_of_twins(form: TwinsForm, pools: Mapping[str, int]) -> dict[str, Any]:
    """Return the context of _order_size.html for twins: accepted steps times errors times twins per step and error.

    `pools` has the number of accepted steps of each experiment by slug.
    """
    steps = sum(pools.get(row.slug, 0) for row in _chosen_experiments(form))
    # A sample larger than the pool is an error of the form; here the pool is the limit.
    steps = min(steps, _parse_number(form["sample"].value(), 1_000_000) or steps)
    errors, each = len(ERRORS.get(str(form["error"].value()), ())), _parse_number(form["per_transition"].value(), 5)
    line, total = _chosen_cast(form), steps * errors * each
    ready = line is not None and line.is_ready and total
    return {
        "total": total,
        "noun": "twin",
        "factors": [(steps, "accepted step"), (errors, "error"), (each, "time")],
        "needs": "Choose an experiment with accepted steps, and 1 to 5 twins per step and error.",
        "cast": line,
        "worst": run_usage.estimate_twins(cast_availability.describe_cast(line.name), total)
        if line and ready
        else None,
    }


def size_of_person(form: HumanEpisodeForm) -> dict[str, Any]:
    """Return the context of _order_size.html for one episode by a person.

    Models that answer and judge may cost money.
    """
    slug = str(form["experiment"].value() or "")
    cast = next((one.cast for one, chosen in form.list_options() if chosen), "")
    experiments = list(Experiment.objects.defer("data").filter(slug=slug))
    return {
        "total": len(experiments),
        "noun": "attempt",
        "factors": [],
        "needs": "Choose an experiment.",
        "cast": next((line for line in cast_availability.list_casts() if line.name == cast), None),
        "worst": _estimate_with_person(cast, experiments) if experiments and cast else None,
    }


def _estimate_with_person(cast: str, known: list[Experiment]) -> CostEstimate | None:
    try:
        return run_usage.estimate_episodes(cast_availability.freeze_with_person(cast), known, 1)
    except LabError:  # the form shows what is missing
        return None


def _chosen_experiments(form: RunForm) -> list[Experiment]:
    return [row for row, chosen in form.list_experiments() if chosen]


def _chosen_cast(form: RunForm) -> cast_availability.CastOption | None:
    return next((line for line in form.available_casts if line.name == form["cast"].value()), None)


def _parse_number(written: object, most: int) -> int:
    """Return an integer up to `most`; 0 for anything else."""
    text = str(written or "")
    # Short ASCII digits only: other digits are accepted by `int` but not by the form.
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 8 and int(text) <= most else 0
