"""Create the demo with the real code. `fixtures/demo.json` contains only parameters."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from django.contrib.auth.models import User
from django.db import transaction

from ratings.models import Study
from ratings.raters import inviting, simulated
from ratings.results.analyses import playing, store
from ratings.results.analyses.filters import Filters
from ratings.studies import access, lifecycle
from simulation.casts import fixtures
from simulation.engine import workers
from simulation.models import Episode, Experiment, Run, Transition
from simulation.runs import queueing

Say = Callable[[str], None]
Watch = Callable[[queueing.RunProgress], None]


class WaysIn(NamedTuple):
    """Paths of the site for the demo's user; `rater` is "" if the study to rate is closed."""

    admin: str
    rater: str
    dashboard: str


def make(directory: Path, say: Say, watch: Callable[[str], Watch], threads: int = 2) -> None:
    """Load the data files, run the casts, create twins and studies, and rate. An interrupted part continues where it stopped."""
    parameters = json.loads((directory / "demo.json").read_text(encoding="utf-8"))
    for kind, count in fixtures.load_lab(directory).items():
        say(f"Loaded {sum(count)} {kind}")
    for part in parameters["runs"]:
        workers.play_run(_episodes(part, parameters["experiments"]), threads, watch(f"Playing {part['cast']}"))
    for part in parameters["twins"]:
        workers.play_run(_twins(part), threads, watch("Planting errors in twins"))
    for part in parameters["studies"]:
        _study(part, say)
    for study in Study.objects.filter(status="unblinded").order_by("pk"):
        say(f"Analysing {study.name}")
        playing.draw(store.compute(study, Filters()))


def ways_in(directory: Path) -> WaysIn:
    """Return new links. They replace those of an earlier start, except for a rater who has begun, whose browser stays signed in."""
    parameters = json.loads((directory / "demo.json").read_text(encoding="utf-8"))
    slugs = {part["protocol"]["slug"]: part for part in parameters["studies"]}
    finished = next(slug for slug, part in slugs.items() if part.get("unblind"))
    to_rate = next(slug for slug, part in slugs.items() if part.get("invite"))
    return WaysIn(
        admin=f"/sign-in/{access.make_link(administrator(), 'admin')}/",
        rater=_rater_link(Study.objects.get(slug=to_rate)),
        dashboard=f"/studies/{finished}/",
    )


def administrator() -> User:
    """Return the demo's admin, who has no password and signs in with links."""
    admin, created = User.objects.get_or_create(
        username="admin", defaults={"is_staff": True, "is_superuser": True, "password": "!"}
    )
    if created:
        admin.set_unusable_password()
        admin.save(update_fields=["password"])
    return admin


def _episodes(order: Mapping[str, Any], slugs: Sequence[str]) -> Run:
    """Return a run of one experiment of each group."""
    # All eighteen experiments would take minutes. The study that the user rates has runs of other experiments, so
    # that the finished studies reveal nothing about it.
    return queueing.queue_episodes(
        Experiment.objects.filter(slug__in=order.get("experiments", slugs)),
        order["cast"],
        order["attempts"],
        order["seed"],
        submission_id=f"demo-{order.get('name', order['cast'])}",
    )


def _twins(order: Mapping[str, Any]) -> Run:
    """Return a run that creates twins of a sample of steps, with the cast of the original run."""
    original_run = Run.objects.get(submission_id=f"demo-{order['run']}")
    steps = Transition.objects.filter(
        episode__run=original_run, episode__counts=True, episode__status__in=Episode.ENDED, accepted=True
    )
    return queueing.queue_twins(
        steps,
        order["perturbations"],
        original_run.cast,
        order["per_transition"],
        order["seed"],
        submission_id=f"demo-twins-{order['run']}",
        sample=order["sample"],
    )


def _study(order: Mapping[str, Any], say: Say) -> None:
    admin = administrator()
    study = Study.objects.filter(slug=order["protocol"]["slug"]).first() or _opened(order, admin)
    if (raters := order.get("simulated_raters")) and study.is_open:
        say(f"Simulated raters rate {study.name}")
        simulated.simulate_raters(study, raters["raters"], *_sensitivities(raters), seed=raters["seed"])
    if order.get("unblind"):
        lifecycle.close_and_unblind(study, by=admin)


@transaction.atomic
def _opened(order: Mapping[str, Any], admin: User) -> Study:
    study = lifecycle.create_study(lifecycle.read_protocol(order["protocol"]), by=admin)
    lifecycle.open_study(study, by=admin)
    study.refresh_from_db()
    return study


def _sensitivities(raters: Mapping[str, Any]) -> tuple[float, float]:
    return raters["sensitivity_obvious"], raters["sensitivity_subtle"]


def _rater_link(study: Study) -> str:
    rater = study.raters.filter(simulated=False).order_by("pk").first()
    return f"/r/{inviting.invite(rater)}/" if rater and study.is_open else ""
