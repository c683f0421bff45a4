"""Studies for tests, made with the functions that the site uses: documents, opening, raters and ratings."""

import random
import uuid
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from ratings.models import Rater, Study
from ratings.rating import next_item, submit
from ratings.studies import lifecycle


def build_protocol(**changes: Any) -> dict[str, Any]:
    """Return a small study of ten items: four without an error, three of each error."""
    sources = [
        {"cast": "offline", "perturbation": "none", "count": 4},
        {"cast": "offline", "perturbation": "obvious", "count": 3},
        {"cast": "offline", "perturbation": "subtle", "count": 3},
    ]
    defaults = {"name": "Small study", "kind": "transition_plausibility", "sources": sources, "ratings_per_item": 2}
    return {**defaults, "seed": 7, **changes}


def build_evidence_protocol(count: int = 6, **changes: Any) -> dict[str, Any]:
    sources = [{"cast": "offline", "count": count}]
    return build_protocol(name="Evidence study", kind="evidence_sufficiency", sources=sources, **changes)


def create_open_study(raters: int | None = None, **changes: Any) -> Study:
    """Open a study over the current pool. Its salt is fixed, so that a seed always gives the same plan."""
    study = lifecycle.create_study(lifecycle.parse_protocol(build_protocol(**changes)))
    Study.objects.filter(pk=study.pk).update(salt="salt")
    lifecycle.open_study(study, raters)
    study.refresh_from_db()
    return study


def unblind_study(study: Study, by: Any) -> Study:
    """Close and unblind the study, and return it reloaded."""
    lifecycle.close_and_unblind(study, by)
    study.refresh_from_db()
    return study


def fill_rater_place(study: Study, label: str = "", ready: bool = True, **fields: Any) -> Rater:
    """Give an open rater place of the study a new user: the place with this label, or the first open one.

    A `ready` rater has consented, read the guide, passed practice and started: the next page is an item.
    """
    rater = study.raters.get(label=label) if label else study.raters.filter(user=None, simulated=False)[0]
    rater.user = User.objects.create_user(f"{study.slug} {rater.label}")
    rater.invited_at = now = timezone.now()
    if ready:
        rater.consented_at = rater.practised_at = rater.started_at = now
        rater.guide_seen = study.guide_version
    for name, value in fields.items():
        setattr(rater, name, value)
    rater.save()
    return rater


def fill_all_rater_places(study: Study) -> list[Rater]:
    """Give every open rater place a new user who is ready to rate."""
    return [fill_rater_place(study, rater.label) for rater in study.raters.filter(user=None, simulated=False)]


def rate_everything(rater: Rater, seed: int = 1) -> int:
    """Let this rater answer all of their items with answers drawn from the seed, and return how many."""
    rng = random.Random(f"{seed}/{rater.label}")
    count = 0
    while assignment := next_item.find_next_assignment(rater):
        next_item.mark_opened(assignment)
        submit.submit_rating(assignment, rng.random() < 0.7, rng.randint(1, 5), uuid.uuid4())
        count += 1
    return count
