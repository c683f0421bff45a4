"""Makes the demo, on the spot and through the real code. `fixtures/demo.json` holds parameters only."""

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
    """Paths of the site that the demo's user is given; `rater` is "" once somebody closed the study to rate."""

    admin: str
    rater: str
    dashboard: str


def make(directory: Path, say: Say, watch: Callable[[str], Watch], threads: int = 2) -> None:
    """Load, play, twin, open and rate. Every part can be interrupted and is then taken up where it stopped."""
    parameters = json.loads((directory / "demo.json").read_text(encoding="utf-8"))
    for kind, count in fixtures.load_lab(directory).items():
        say(f"Loaded {sum(count)} {kind}")
    for order in parameters["runs"]:
        workers.play_run(_episodes(order, parameters["experiments"]), threads, watch(f"Playing {order['cast']}"))
    for order in parameters["twins"]:
        workers.play_run(_twins(order), threads, watch("Planting errors in twins"))
    for order in parameters["studies"]:
        _study(order, say)
    for study in Study.objects.filter(status="unblinded").order_by("pk"):
        say(f"Analysing {study.name}")
        playing.draw(store.compute(study, Filters()))


def ways_in(directory: Path) -> WaysIn:
    """Fresh links; those of an earlier start stop working unless their rater has begun, whose browser goes on."""
    parameters = json.loads((directory / "demo.json").read_text(encoding="utf-8"))
    slugs = {order["protocol"]["slug"]: order for order in parameters["studies"]}
    finished = next(slug for slug, order in slugs.items() if order.get("unblind"))
    to_rate = next(slug for slug, order in slugs.items() if order.get("invite"))
    return WaysIn(
        admin=f"/sign-in/{access.make_link(administrator(), 'admin')}/",
        rater=_rater_link(Study.objects.get(slug=to_rate)),
        dashboard=f"/studies/{finished}/",
    )


def administrator() -> User:
    """The demo's admin, who has no password: links are the only way in."""
    admin, created = User.objects.get_or_create(
        username="admin", defaults={"is_staff": True, "is_superuser": True, "password": "!"}
    )
    if created:
        admin.set_unusable_password()
        admin.save(update_fields=["password"])
    return admin


def _episodes(order: Mapping[str, Any], slugs: Sequence[str]) -> Run:
    """One experiment of each group: all eighteen would take minutes, and anyone can seed them.

    The study to try has runs of its own, of other experiments: whoever reads the finished studies reads nothing of it.
    """
    return queueing.queue_episodes(
        Experiment.objects.filter(slug__in=order.get("experiments", slugs)),
        order["cast"],
        order["attempts"],
        order["seed"],
        submission_id=f"demo-{order.get('name', order['cast'])}",
    )


def _twins(order: Mapping[str, Any]) -> Run:
    """Twins of so many steps of one of these runs, made by its own cast."""
    played = Run.objects.get(submission_id=f"demo-{order['run']}")
    steps = Transition.objects.filter(
        episode__run=played, episode__counts=True, episode__status__in=Episode.ENDED, accepted=True
    )
    return queueing.queue_twins(
        steps,
        order["perturbations"],
        played.cast,
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
    seat = study.raters.filter(simulated=False).order_by("pk").first()
    return f"/r/{inviting.invite(seat)}/" if seat and study.is_open else ""
