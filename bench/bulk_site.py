"""Create a site with a given number of ratings directly as rows: crossed or balanced studies, real payloads, one event per rating.

Payloads are the steps of the reference protocols, run offline and blinded as for raters; a number in a parameter makes each
item unique. Every rater rates in the order of the items; the last `UNRATED_ITEMS` items of a study are not rated yet.
"""

import json
import random
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from django.contrib.auth.models import User

from bench.bulk_load import begin_loading, finish_loading, load_rows
from ratings.blinding import allow_list
from ratings.models import (
    Assignment,
    GuideVersion,
    ImportedItem,
    Item,
    ItemSource,
    Rater,
    RaterProfile,
    Rating,
    RatingEvent,
    Study,
    StudyEvent,
)
from ratings.models.studies import TRANSITION
from ratings.studies.item_counts import update_item_counts
from simulation.lab import catalogue, experiments
from simulation.lab.actions import QUIT, SUBMIT
from simulation.lab.bench import Bench, step_to_json
from simulation.lab.materials import build_inventory
from simulation.offline.agents import ProtocolAgent
from simulation.offline.rules import RuleBasedTransitionModel

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
RATINGS_PER_ITEM = 10  # ratings per item
UNRATED_ITEMS = 20  # items of each study that are not rated yet
SOURCES = (("first-model", "none", 1), ("second-model", "none", 1), ("offline", "obvious", 0), ("offline", "subtle", 0))
START = datetime(2026, 1, 5, 9, tzinfo=UTC)


class StudyPlan(NamedTuple):
    """One study: the number of ratings and of raters. 10 raters rate everything; more raters share the items in turn."""

    slug: str
    ratings: int
    raters: int = RATINGS_PER_ITEM

    @property
    def rated_items(self) -> int:
        return self.ratings // RATINGS_PER_ITEM

    @property
    def total_items(self) -> int:
        return self.rated_items + UNRATED_ITEMS if self.ratings else 0


class FirstIds(NamedTuple):
    """The primary keys of a study's first row in each table."""

    study: int
    item: int
    rater: int
    place: int
    rating: int


def create_site(plans: list[StudyPlan]) -> None:
    """Create all studies in an empty, migrated database. The same plans give the same rows."""
    begin_loading()
    rng = random.Random(0)
    payloads = list(iter_reference_payloads())
    admin = User.objects.create(username="admin", is_staff=True, is_superuser=True, password="!")
    ids = [FirstIds(1, 1, 1, 1, 1)]
    for plan in plans:
        # Keys are assigned here, so that rows can refer to rows of tables that are loaded later.
        first = ids[-1]
        ids.append(
            FirstIds(first.study + 1, first.item + plan.total_items, first.rater + plan.raters, first.place + plan.total_items * RATINGS_PER_ITEM,
                first.rating + plan.ratings)
        )  # fmt: skip
    planned = list(zip(plans, ids, strict=False))
    users = [(first.rater + n, plan) for plan, first in planned for n in range(plan.raters)]
    load_rows(
        User, ({"id": admin.pk + key, "username": f"rater-{key}", "password": "!", "is_active": 1} for key, _ in users)
    )
    load_rows(RaterProfile, ({"id": key, "user_id": admin.pk + key, "answered_at": str(START)} for key, _ in users))
    load_rows(Study, (build_study_row(plan, first, admin.pk) for plan, first in planned))
    load_rows(StudyEvent, (row for plan, first in planned for row in iter_event_rows(plan, first)))
    load_rows(
        GuideVersion, ({"id": first.study, "study_id": first.study, "number": 1, "text": ""} for _, first in planned)
    )
    load_rows(Rater, (row for plan, first in planned for row in iter_rater_rows(plan, first, admin.pk)))
    load_rows(Item, (row for plan, first in planned for row in iter_item_rows(plan, first, payloads, rng)))
    load_rows(ImportedItem, (row for plan, first in planned for row in iter_import_rows(plan, first)))
    load_rows(ItemSource, (row for plan, first in planned for row in iter_source_rows(plan, first, rng)))
    load_rows(Assignment, (row for plan, first in planned for row in iter_assignment_rows(plan, first, rng)))
    load_rows(Rating, (row for plan, first in planned for row in iter_rating_rows(plan, first)))
    load_rows(RatingEvent, (build_event_row(row) for plan, first in planned for row in iter_rating_rows(plan, first)))
    update_item_counts(Rater.objects.all())
    finish_loading()


def iter_reference_payloads() -> Iterator[dict[str, Any]]:
    """Yield every step of the reference protocols as raters see it."""
    actions, _ = catalogue.load_catalogue(FIXTURES / "actions")
    for spec, _ in experiments.load_experiments(FIXTURES / "experiments", actions):
        bench = Bench(spec.goal, actions, build_inventory(spec.initial_materials(), 1), 1, spec.max_steps)
        agent, model = ProtocolAgent(spec, 1), RuleBasedTransitionModel(1, spec.truth)
        while bench.ending is None:
            bench.take_step(agent.choose_action(bench.get_situation()), model)
        for step in bench.history:
            if step.action.name not in (SUBMIT, QUIT):
                yield allow_list.blind_transition(step_to_json(step))


def build_study_row(plan: StudyPlan, first: FirstIds, admin: int) -> dict[str, Any]:
    sources = [
        {"cast": name, "perturbation": error, "count": plan.total_items // len(SOURCES)} for name, error, _ in SOURCES
    ]
    document = {
        "name": plan.slug, "slug": plan.slug, "kind": TRANSITION, "question": "Is the outcome plausible?",
        "sources": sources, "ratings_per_item": RATINGS_PER_ITEM, "practice": 0, "seed": 1, "raters": plan.raters,
    }  # fmt: skip
    return {
        "id": first.study, "slug": plan.slug, "name": plan.slug, "kind": TRANSITION, "question": document["question"],
        "protocol": json.dumps(document), "seed": 1, "ratings_per_item": RATINGS_PER_ITEM, "created_by_id": admin,
        "status": "open" if plan.ratings else "draft", "code": derive_code("study", first.study), "salt": "salt",
        "created_at": str(START), "opened_at": str(START) if plan.ratings else None,
    }  # fmt: skip


def iter_event_rows(plan: StudyPlan, first: FirstIds) -> Iterator[dict[str, Any]]:
    for n, kind in enumerate(("created", "opened") if plan.ratings else ("created",)):
        data = {"items": plan.total_items, "raters": plan.raters} if kind == "opened" else {}
        yield {
            "id": 2 * first.study + n,
            "study_id": first.study,
            "kind": kind,
            "at": str(START),
            "data": json.dumps(data),
        }


def iter_rater_rows(plan: StudyPlan, first: FirstIds, admin: int) -> Iterator[dict[str, Any]]:
    times = dict.fromkeys(("invited_at", "consented_at", "practised_at", "started_at", "last_seen_at"), str(START))
    for n in range(plan.raters):
        key = first.rater + n
        yield {"id": key, "code": derive_code("rater", key), "study_id": first.study, "user_id": admin + key, "number": n + 1,
               "label": f"R{n + 1:02}", "guide_seen": 1, **times}  # fmt: skip


def iter_item_rows(
    plan: StudyPlan, first: FirstIds, payloads: list[dict[str, Any]], rng: random.Random
) -> Iterator[dict[str, Any]]:
    for n in range(plan.total_items):
        payload = rng.choice(payloads)
        action = payload["action"]
        # A unique parameter: items with equal payloads would be one item.
        item_payload = {**payload, "action": {**action, "parameters": [*action["parameters"], ["batch", str(n)]]}}
        key, digest = first.item + n, allow_list.payload_digest(item_payload)
        yield {"id": key, "code": derive_code("item", key), "study_id": first.study, "payload": json.dumps(item_payload), "payload_sha256": digest,
               "pair_sha256": allow_list.pair_digest(item_payload), "created_at": str(START)}  # fmt: skip


def iter_import_rows(plan: StudyPlan, first: FirstIds) -> Iterator[dict[str, Any]]:
    """Yield minimal import rows: no page measured here reads them."""
    for n in range(plan.total_items):
        label, error, truth = SOURCES[n % len(SOURCES)]
        payload = {"batch": n}
        yield {"id": first.item + n, "study_id": first.study, "key": str(n), "record": "{}", "payload": json.dumps(payload),
               "payload_sha256": allow_list.payload_digest(payload), "label": label, "perturbation": error, "truth": truth}  # fmt: skip


def iter_source_rows(plan: StudyPlan, first: FirstIds, rng: random.Random) -> Iterator[dict[str, Any]]:
    for n in range(plan.total_items):
        label, error, truth = SOURCES[n % len(SOURCES)]
        yield {"id": first.item + n, "item_id": first.item + n, "pair": derive_code("pair", first.item + n), "label": label,
               "perturbation": error, "truth": truth, "imported_id": first.item + n, "experiment": f"experiment {rng.randrange(18)}",
               "action": f"action {rng.randrange(30)}"}  # fmt: skip


def iter_assignment_rows(plan: StudyPlan, first: FirstIds, rng: random.Random) -> Iterator[dict[str, Any]]:
    """Yield assignments item by item; each rater's positions count up from item to item."""
    position, ratings = [0] * plan.raters, iter_rating_rows(plan, first)
    for n in range(plan.total_items):
        for k in range(RATINGS_PER_ITEM):
            rater = (n * RATINGS_PER_ITEM + k) % plan.raters
            position[rater] += 1
            yield {"id": first.place + n * RATINGS_PER_ITEM + k, "code": f"{rng.getrandbits(128):032x}", "item_id": first.item + n,
                   "rater_id": first.rater + rater, "position": position[rater], "slot": k + 1,
                   "pair": derive_code("pair", first.item + n), "opened_at": str(START) if n < plan.rated_items else None,
                   "answered_at": next(ratings)["submitted_at"] if n < plan.rated_items else None}  # fmt: skip


def iter_rating_rows(plan: StudyPlan, first: FirstIds) -> Iterator[dict[str, Any]]:
    """Yield ratings: four in five verdicts agree with the truth, one in a hundred is "cannot judge"; all times differ."""
    # A generator of its own: this runs for assignments, ratings and events, and must yield the same rows each time.
    rng = random.Random(first.study)
    for n in range(plan.ratings):
        truth = SOURCES[n // RATINGS_PER_ITEM % len(SOURCES)][2]
        judged, seconds = rng.random() > 0.01, 20 + 100 * rng.random()
        opened = START + timedelta(minutes=n / plan.raters)
        yield {
            "id": first.rating + n, "assignment_id": first.place + n, "verdict": int((rng.random() < 0.8) == truth) if judged else None,
            "confidence": rng.randint(1, 5) if judged else None, "cannot_judge": int(not judged),
            "submission_id": f"{rng.getrandbits(128):032x}", "opened_at": str(opened), "guide_version": 1,
            "submitted_at": str(opened + timedelta(seconds=seconds)), "seconds": seconds, "active_seconds": seconds - 2,
            "first_verdict_seconds": seconds / 2, "hand": "keys", "viewport": "1440x900", "layout_shown": "aligned",
            "interface_version": "2",
        }  # fmt: skip


def build_event_row(rating: dict[str, Any]) -> dict[str, Any]:
    copied = ("id", "assignment_id", "verdict", "confidence", "cannot_judge", "submission_id", "active_seconds")
    return {name: rating[name] for name in copied} | {"kind": "answer", "revision": 1, "at": rating["submitted_at"]}


def derive_code(kind: str, number: int) -> str:
    return uuid.uuid5(uuid.NAMESPACE_OID, f"{kind}/{number}").hex
