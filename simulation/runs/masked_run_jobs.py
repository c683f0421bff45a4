"""Create runs with hidden protocol steps in a worker: protocols are run to find and check masks, which takes longer than a request may."""

from collections.abc import Iterable
from decimal import Decimal
from typing import Unpack

from django.contrib.auth.models import User
from django.urls import reverse

from simulation.jobs import Outcome, Work, jobs
from simulation.lab.errors import LabError
from simulation.lab.hidden_steps.masks import Drawing
from simulation.models import Experiment, Job
from simulation.runs import create, protocol_masks
from simulation.runs.create import RunOptions
from simulation.runs.protocol_masks import MaskOrder

KIND = "masked_run"


def request_masked_run(
    experiments: Iterable[Experiment],
    cast: str,
    replicates: int,
    seed: int | None,
    user: User,
    submission_id: str,
    manifest: bool,
    truths: str,
    masks: MaskOrder,
    **options: Unpack[RunOptions],
) -> Job:
    """Return the job that creates this run, as `create_episode_run` does. The same submission id returns the same job.

    Raises LabError if it is known already that the run cannot be created.
    """
    rows = list(experiments)
    create.check_masked_run(rows, cast, masks, options.get("prompt_set") or "")
    cost = options.get("max_cost")
    params = {
        "experiments": [row.slug for row in rows],
        "cast": cast,
        "replicates": replicates,
        "seed": seed,
        "submission_id": submission_id,
        "manifest": manifest,
        "truths": truths,
        "masks": masks.to_json(),
        "options": {**options, "max_cost": None if cost is None else str(cost)},
    }
    return jobs.request_job(KIND, params, subject=f"run/{submission_id}", user=user, reuse=True)


@jobs.register_handler(KIND)
def _create_masked_run(work: Work) -> Outcome:
    """Find the essential steps of one experiment that lacks them, or create the run if none does."""
    params = work.params
    rows = list(Experiment.objects.filter(slug__in=params["experiments"]).order_by("slug"))
    if missing := sorted(set(params["experiments"]) - {row.slug for row in rows}):
        raise jobs.JobFailed(f"These experiments no longer exist: {', '.join(missing)}.")
    waiting = [row for row in rows if row.essential_steps is None]
    try:
        if waiting:
            message = f"Finding the essential steps of {waiting[0].name}"
            work.report_progress(len(rows) - len(waiting), len(rows), message)
            protocol_masks.get_essential_steps(waiting[0])
            return jobs.MORE_WORK
        work.report_progress(len(rows), len(rows), "Drawing masks, each of which is checked")
        order, options = params["masks"], params["options"]
        drawing = Drawing(order["draws"], order["mode"], order["help"], order["mask_seed"])
        if options["max_cost"] is not None:
            options["max_cost"] = Decimal(options["max_cost"])
        run = create.create_episode_run(
            rows,
            params["cast"],
            params["replicates"],
            params["seed"],
            work.job.asked_by,
            params["submission_id"],
            params["manifest"],
            params["truths"],
            MaskOrder(tuple(order["hide"]), drawing),
            **options,
        )
    except LabError as error:
        raise jobs.JobFailed(f"The run cannot be created: {error}.") from error
    return {
        "said": f"{run.episodes.count()} episodes are queued.",
        "href": reverse("simulation:run", args=[run.code]),
        "label": "Open the run",
    }
