"""Create the demo with the same code as any run and study. `fixtures/demo.json` contains only parameters."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from django.contrib.auth.models import User
from django.db import transaction

from ratings.accounts import signing_in
from ratings.models import Study
from ratings.raters import invitations, simulated_raters
from ratings.results.analyses import analysis_job, store
from ratings.results.analyses.filters import Filters
from ratings.studies import lifecycle
from simulation.casts import load_files
from simulation.engine import workers
from simulation.models import Episode, Experiment, Run, Transition
from simulation.runs import create

ReportProgress = Callable[[str], None]
WatchRun = Callable[[create.RunProgress], None]


class DemoLinks(NamedTuple):
    """Paths of the site for the demo's user; `rater` is "" if the study to rate is closed."""

    admin: str
    rater: str
    dashboard: str


def create_demo(directory: Path, report: ReportProgress, watch: Callable[[str], WatchRun], threads: int = 2) -> None:
    """Load the data files, run the casts, create twins and studies, and rate. An interrupted part continues where it stopped."""
    parameters = json.loads((directory / "demo.json").read_text(encoding="utf-8"))
    for kind, count in load_files.load_lab(directory).items():
        report(f"Loaded {sum(count)} {kind}")
    for part in parameters["runs"]:
        workers.run_to_end(_queue_episodes(part, parameters["experiments"]), threads, watch(f"Playing {part['cast']}"))
    for part in parameters["twins"]:
        workers.run_to_end(_queue_twins(part), threads, watch("Planting errors in twins"))
    for part in parameters["studies"]:
        _prepare_study(part, report)
    for study in Study.objects.filter(status="unblinded").order_by("pk"):
        report(f"Analysing {study.name}")
        analysis_job.draw_figures(store.compute_analysis(study, Filters()))


def create_demo_links(directory: Path) -> DemoLinks:
    """Return new links, which replace those of an earlier start. A rater who has begun stays signed in."""
    parameters = json.loads((directory / "demo.json").read_text(encoding="utf-8"))
    slugs = {part["protocol"]["slug"]: part for part in parameters["studies"]}
    finished = next(slug for slug, part in slugs.items() if part.get("unblind"))
    to_rate = next(slug for slug, part in slugs.items() if part.get("invite"))
    return DemoLinks(
        admin=f"/sign-in/{signing_in.create_link(get_or_create_admin(), 'admin')}/",
        rater=_create_rater_link(Study.objects.get(slug=to_rate)),
        dashboard=f"/studies/{finished}/",
    )


def get_or_create_admin() -> User:
    """Return the demo's admin, who has no password and signs in with links."""
    admin, created = User.objects.get_or_create(
        username="admin", defaults={"is_staff": True, "is_superuser": True, "password": "!"}
    )
    if created:
        admin.set_unusable_password()
        admin.save(update_fields=["password"])
    return admin


def _queue_episodes(part: Mapping[str, Any], slugs: Sequence[str]) -> Run:
    """Return a run of the experiments that this part of the demo names, or of `slugs` if it names none."""
    # All eighteen experiments would take minutes. The study that the user rates has runs of other experiments, so
    # that the finished studies reveal nothing about it.
    return create.create_episode_run(
        Experiment.objects.filter(slug__in=part.get("experiments", slugs)),
        part["cast"],
        part["attempts"],
        part["seed"],
        submission_id=f"demo-{part.get('name', part['cast'])}",
    )


def _queue_twins(part: Mapping[str, Any]) -> Run:
    """Return a run that creates twins of a sample of an earlier run's steps, with the same cast."""
    original_run = Run.objects.get(submission_id=f"demo-{part['run']}")
    steps = Transition.objects.filter(
        episode__run=original_run, episode__counts=True, episode__status__in=Episode.ENDED, accepted=True
    )
    return create.create_twin_run(
        steps,
        part["perturbations"],
        original_run.cast,
        part["per_transition"],
        part["seed"],
        submission_id=f"demo-twins-{part['run']}",
        sample=part["sample"],
    )


def _prepare_study(part: Mapping[str, Any], report: ReportProgress) -> None:
    admin = get_or_create_admin()
    study = Study.objects.filter(slug=part["protocol"]["slug"]).first() or _open_study(part, admin)
    if (raters := part.get("simulated_raters")) and study.is_open:
        report(f"Simulated raters rate {study.name}")
        simulated_raters.simulate_raters(study, raters["raters"], *_get_sensitivities(raters), seed=raters["seed"])
    if part.get("unblind"):
        lifecycle.close_and_unblind(study, by=admin)


@transaction.atomic
def _open_study(part: Mapping[str, Any], admin: User) -> Study:
    study = lifecycle.create_study(lifecycle.parse_protocol(part["protocol"]), by=admin)
    lifecycle.open_study(study, by=admin)
    study.refresh_from_db()
    return study


def _get_sensitivities(raters: Mapping[str, Any]) -> tuple[float, float]:
    return raters["sensitivity_obvious"], raters["sensitivity_subtle"]


def _create_rater_link(study: Study) -> str:
    rater = study.raters.filter(simulated=False).order_by("pk").first()
    return f"/r/{invitations.create_invitation(rater)}/" if rater and study.is_open else ""
