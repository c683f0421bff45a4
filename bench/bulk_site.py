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

from bench.bulk_load import begin, finish, load
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
from simulation.lab import catalogue, experiments
from simulation.lab.actions import QUIT, SUBMIT
from simulation.lab.bench import Bench, step_to_json
from simulation.lab.materials import place_all
from simulation.offline.agent import ProtocolAgent
from simulation.offline.rules import RuleBasedTransitionModel

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
EACH = 10  # ratings per item
WAITING = 20  # items of each study that are not rated yet
SOURCES = (("first-model", "none", 1), ("second-model", "none", 1), ("offline", "obvious", 0), ("offline", "subtle", 0))
START = datetime(2026, 1, 5, 9, tzinfo=UTC)


class Plan(NamedTuple):
    """One study: the number of ratings and of raters. 10 raters rate everything; more raters share the items in turn."""

    slug: str
    ratings: int
    raters: int = EACH

    @property
    def rated(self) -> int:
        return self.ratings // EACH

    @property
    def items(self) -> int:
        return self.rated + WAITING if self.ratings else 0


class Ids(NamedTuple):
    """The primary keys of a study's first row in each table."""

    study: int
    item: int
    rater: int
    place: int
    rating: int


def make(plans: list[Plan]) -> None:
    """Create all studies in an empty, migrated database. The same plans give the same rows."""
    begin()
    rng = random.Random(0)
    payloads = list(reference_payloads())
    admin = User.objects.create(username="admin", is_staff=True, is_superuser=True, password="!")
    ids = [Ids(1, 1, 1, 1, 1)]
    for plan in plans:
        # Keys are assigned here, so that rows can refer to rows of tables that are loaded later.
        first = ids[-1]
        ids.append(
            Ids(first.study + 1, first.item + plan.items, first.rater + plan.raters, first.place + plan.items * EACH,
                first.rating + plan.ratings)
        )  # fmt: skip
    planned = list(zip(plans, ids, strict=False))
    users = [(first.rater + n, plan) for plan, first in planned for n in range(plan.raters)]
    load(
        User, ({"id": admin.pk + key, "username": f"rater-{key}", "password": "!", "is_active": 1} for key, _ in users)
    )
    load(RaterProfile, ({"id": key, "user_id": admin.pk + key, "answered_at": str(START)} for key, _ in users))
    load(Study, (_study(plan, first, admin.pk) for plan, first in planned))
    load(StudyEvent, (row for plan, first in planned for row in _moves(plan, first)))
    load(GuideVersion, ({"id": first.study, "study_id": first.study, "number": 1, "text": ""} for _, first in planned))
    load(Rater, (row for plan, first in planned for row in _raters(plan, first, admin.pk)))
    load(Item, (row for plan, first in planned for row in _items(plan, first, payloads, rng)))
    load(ImportedItem, (row for plan, first in planned for row in _imported(plan, first)))
    load(ItemSource, (row for plan, first in planned for row in _sources(plan, first, rng)))
    load(Assignment, (row for plan, first in planned for row in _places(plan, first, rng)))
    load(Rating, (row for plan, first in planned for row in _ratings(plan, first)))
    load(RatingEvent, (_event(row) for plan, first in planned for row in _ratings(plan, first)))
    finish()


def reference_payloads() -> Iterator[dict[str, Any]]:
    """Yield every step of the reference protocols as raters see it."""
    actions, _ = catalogue.read_directory(FIXTURES / "actions")
    for spec, _ in experiments.read_directory(FIXTURES / "experiments", actions):
        bench = Bench(spec.goal, actions, place_all(spec.drafts(), 1), 1, spec.max_steps)
        agent, model = ProtocolAgent(spec, 1), RuleBasedTransitionModel(1, spec.truth)
        while bench.ending is None:
            bench.step(agent.choose(bench.situation()), model)
        for step in bench.history:
            if step.action.name not in (SUBMIT, QUIT):
                yield allow_list.blind_transition(step_to_json(step))


def _study(plan: Plan, at: Ids, admin: int) -> dict[str, Any]:
    sources = [{"cast": name, "perturbation": error, "count": plan.items // len(SOURCES)} for name, error, _ in SOURCES]
    document = {
        "name": plan.slug, "slug": plan.slug, "kind": TRANSITION, "question": "Is the outcome plausible?",
        "sources": sources, "ratings_per_item": EACH, "practice": 0, "seed": 1, "raters": plan.raters,
    }  # fmt: skip
    return {
        "id": at.study, "slug": plan.slug, "name": plan.slug, "kind": TRANSITION, "question": document["question"],
        "protocol": json.dumps(document), "seed": 1, "ratings_per_item": EACH, "created_by_id": admin,
        "status": "open" if plan.ratings else "draft", "code": _code("study", at.study), "salt": "salt",
        "created_at": str(START), "opened_at": str(START) if plan.ratings else None,
    }  # fmt: skip


def _moves(plan: Plan, at: Ids) -> Iterator[dict[str, Any]]:
    for n, kind in enumerate(("created", "opened") if plan.ratings else ("created",)):
        data = {"items": plan.items, "raters": plan.raters} if kind == "opened" else {}
        yield {"id": 2 * at.study + n, "study_id": at.study, "kind": kind, "at": str(START), "data": json.dumps(data)}


def _raters(plan: Plan, at: Ids, admin: int) -> Iterator[dict[str, Any]]:
    times = dict.fromkeys(("invited_at", "consented_at", "practised_at", "started_at", "last_seen_at"), str(START))
    for n in range(plan.raters):
        key = at.rater + n
        yield {"id": key, "code": _code("rater", key), "study_id": at.study, "user_id": admin + key, "number": n + 1,
               "label": f"R{n + 1:02}", "guide_seen": 1, **times}  # fmt: skip


def _items(plan: Plan, at: Ids, payloads: list[dict[str, Any]], rng: random.Random) -> Iterator[dict[str, Any]]:
    for n in range(plan.items):
        payload = rng.choice(payloads)
        action = payload["action"]
        # A unique parameter: items with equal payloads would be one item.
        item_payload = {**payload, "action": {**action, "parameters": [*action["parameters"], ["batch", str(n)]]}}
        key, digest = at.item + n, allow_list.payload_digest(item_payload)
        yield {"id": key, "code": _code("item", key), "study_id": at.study, "payload": json.dumps(item_payload), "payload_sha256": digest,
               "pair_sha256": allow_list.pair_digest(item_payload), "created_at": str(START)}  # fmt: skip


def _imported(plan: Plan, at: Ids) -> Iterator[dict[str, Any]]:
    """Yield minimal import rows: no page measured here reads them."""
    for n in range(plan.items):
        label, error, truth = SOURCES[n % len(SOURCES)]
        payload = {"batch": n}
        yield {"id": at.item + n, "study_id": at.study, "key": str(n), "record": "{}", "payload": json.dumps(payload),
               "payload_sha256": allow_list.payload_digest(payload), "label": label, "perturbation": error, "truth": truth}  # fmt: skip


def _sources(plan: Plan, at: Ids, rng: random.Random) -> Iterator[dict[str, Any]]:
    for n in range(plan.items):
        label, error, truth = SOURCES[n % len(SOURCES)]
        yield {"id": at.item + n, "item_id": at.item + n, "pair": _code("pair", at.item + n), "label": label,
               "perturbation": error, "truth": truth, "imported_id": at.item + n, "experiment": f"experiment {rng.randrange(18)}",
               "action": f"action {rng.randrange(30)}"}  # fmt: skip


def _places(plan: Plan, at: Ids, rng: random.Random) -> Iterator[dict[str, Any]]:
    """Yield assignments item by item; each rater's positions count up from item to item."""
    position = [0] * plan.raters
    for n in range(plan.items):
        for k in range(EACH):
            rater = (n * EACH + k) % plan.raters
            position[rater] += 1
            yield {"id": at.place + n * EACH + k, "code": f"{rng.getrandbits(128):032x}", "item_id": at.item + n,
                   "rater_id": at.rater + rater, "position": position[rater], "slot": k + 1,
                   "pair": _code("pair", at.item + n), "opened_at": str(START) if n < plan.rated else None}  # fmt: skip


def _ratings(plan: Plan, at: Ids) -> Iterator[dict[str, Any]]:
    """Yield ratings: four in five verdicts agree with the truth, one in a hundred is "cannot judge"; all times differ."""
    # A generator of its own: this runs twice, for ratings and for events, and must yield the same rows.
    rng = random.Random(at.study)
    for n in range(plan.ratings):
        truth = SOURCES[n // EACH % len(SOURCES)][2]
        judged, seconds = rng.random() > 0.01, 20 + 100 * rng.random()
        opened = START + timedelta(minutes=n / plan.raters)
        yield {
            "id": at.rating + n, "assignment_id": at.place + n, "verdict": int((rng.random() < 0.8) == truth) if judged else None,
            "confidence": rng.randint(1, 5) if judged else None, "cannot_judge": int(not judged),
            "submission_id": f"{rng.getrandbits(128):032x}", "opened_at": str(opened), "guide_version": 1,
            "submitted_at": str(opened + timedelta(seconds=seconds)), "seconds": seconds, "active_seconds": seconds - 2,
            "first_verdict_seconds": seconds / 2, "hand": "keys", "viewport": "1440x900", "layout_shown": "aligned",
            "interface_version": "2",
        }  # fmt: skip


def _event(rating: dict[str, Any]) -> dict[str, Any]:
    copied = ("id", "assignment_id", "verdict", "confidence", "cannot_judge", "submission_id", "active_seconds")
    return {name: rating[name] for name in copied} | {"kind": "answer", "revision": 1, "at": rating["submitted_at"]}


def _code(what: str, number: int) -> str:
    return uuid.uuid5(uuid.NAMESPACE_OID, f"{what}/{number}").hex
