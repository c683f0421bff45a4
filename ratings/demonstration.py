"""Create the demo with the same code as any run and study. `fixtures/demo.json` contains only parameters.

A job creates it part by part, so that the site can be used in the meantime and shows the progress. A part that exists is not
created again, so an interrupted job continues where it stopped.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.urls import reverse

from ratings.accounts import signing_in
from ratings.models import Study
from ratings.raters import invitations, simulated_raters
from ratings.results.analyses import store
from ratings.results.analyses.filters import Filters
from ratings.studies import lifecycle
from simulation.casts import load_files
from simulation.engine import workers
from simulation.jobs import Outcome, Work, jobs
from simulation.models import Episode, Experiment, Job, Run, Transition
from simulation.runs import create
from wetbench_site.database import release_connection
from wetbench_site.text import hash_text

KIND = SUBJECT = "demo"
_UNIT_SECONDS = 2.0  # after which a unit ends between two rows, so that a worker can stop

ReportProgress = Callable[[str], None]


class DemoLinks(NamedTuple):
    """Paths of the site for the demo's user; `rater` is "" if the study to rate is closed."""

    rater: str
    dashboard: str


class Part(NamedTuple):
    """A part of the demo. `advance` works on it for a while and returns whether it is complete."""

    title: str
    advance: Callable[[ReportProgress], bool]


def request_demo(user: User) -> Job:
    """Return the job that creates the demo: the finished one if the data files have not changed since, else a new one."""
    files = sorted(path for path in settings.FIXTURES_DIR.rglob("*.json"))
    digest = hash_text("".join(f"{path.name}\n{path.read_text(encoding='utf-8')}" for path in files))
    slugs = [part["protocol"]["slug"] for part in _read_parameters()["studies"]]
    is_complete = Study.objects.filter(slug__in=slugs).count() == len(slugs)
    return jobs.request_job(KIND, {"files": digest}, subject=SUBJECT, user=user, reuse=is_complete)


@jobs.register_handler(KIND)
def run_demo_unit(work: Work) -> Outcome:
    """Continue the first incomplete part. The analyses of the finished studies, with their figures, are further jobs."""
    parts, number = list(_iter_parts(_read_parameters())), work.job.step
    if number < len(parts):
        part = parts[number]
        if part.advance(lambda message: work.report_progress(number, len(parts), message)):
            # The worker may keep the row for the next unit, so it is changed in memory too.
            work.job.step, following = number + 1, parts[number + 1 : number + 2]
            message = following[0].title if following else ""
            work.commit_write(lambda: work.lease.commit_progress(step=number + 1, of=len(parts), message=message))
        return jobs.MORE_WORK
    request_analyses()
    finished = _find_slug("unblind")
    said = f"{Study.objects.count()} studies, of which two are finished and one is for you to rate."
    return {"said": said, "href": reverse("ratings:study", kwargs={"slug": finished}), "label": "View a finished study"}


def request_analyses() -> list[Job]:
    """Request the analyses of the demo's finished studies. Return the jobs that are not done."""
    rows = Study.objects.filter(slug__in=[part["protocol"]["slug"] for part in _read_parameters()["studies"]])
    pending = [store.get_or_request(study, Filters()).job for study in rows.filter(status="unblinded").order_by("pk")]
    return [job for job in pending if job]


def _read_parameters() -> dict[str, Any]:
    parameters: dict[str, Any] = json.loads((settings.FIXTURES_DIR / "demo.json").read_text(encoding="utf-8"))
    return parameters


def _iter_parts(parameters: Mapping[str, Any]) -> Iterator[Part]:
    yield Part("Loading the laboratory", _load_laboratory)
    for part in parameters["runs"]:
        title = f"Playing {part['cast']}"
        yield Part(title, partial(_advance_run, title, partial(_queue_episodes, part, parameters["experiments"])))
    for part in parameters["twins"]:
        title = "Planting errors in twins"
        yield Part(title, partial(_advance_run, title, partial(_queue_twins, part)))
    for part in parameters["studies"]:
        title = f"Raters rate {part['protocol']['name']}" if "simulated_raters" in part else "Opening the study to rate"
        yield Part(title, partial(_prepare_study, part))


def _load_laboratory(report: ReportProgress) -> bool:
    load_files.load_lab(settings.FIXTURES_DIR)
    return True


def _advance_run(title: str, queue_run: Callable[[], Run], report: ReportProgress) -> bool:
    """Run rows of the run for a short time, beside other threads of the worker. Return whether all have ended."""
    run, stop, deadline = queue_run(), threading.Event(), time.monotonic() + _UNIT_SECONDS
    while not (progress := create.get_progress(run)).is_finished:
        report(f"{title}: {progress.ended} of {progress.total}")
        if time.monotonic() > deadline:
            return False
        if not workers.try_next_row(stop, run):
            release_connection()
            time.sleep(settings.POLL_SECONDS / 5)
    return True


def create_admin_link() -> str:
    """Return the path of a new link that signs the admin in for a day. It replaces the link of an earlier start."""
    return f"/sign-in/{signing_in.create_link(get_or_create_admin(), 'admin')}/"


def create_demo_links() -> DemoLinks:
    """Return the links of a complete demo. A new link for the rater replaces that of an earlier start."""
    study = Study.objects.get(slug=_find_slug("invite"))
    return DemoLinks(_create_rater_link(study), f"/studies/{_find_slug('unblind')}/")


def _find_slug(feature: str) -> str:
    """Return the slug of the demo's first study with this parameter."""
    return next(str(part["protocol"]["slug"]) for part in _read_parameters()["studies"] if part.get(feature))


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


def _prepare_study(part: Mapping[str, Any], report: ReportProgress) -> bool:
    admin = get_or_create_admin()
    study = Study.objects.filter(slug=part["protocol"]["slug"]).first() or _open_study(part, admin)
    if (raters := part.get("simulated_raters")) and study.is_open:
        simulated_raters.simulate_raters(study, raters["raters"], *_get_sensitivities(raters), seed=raters["seed"])
    if part.get("unblind"):
        lifecycle.close_and_unblind(study, by=admin)
    return True


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
