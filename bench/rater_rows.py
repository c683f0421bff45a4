"""Create open studies and their raters directly as rows, for bench.rater_loop. Needs Django to be set up.

Each rater rates a fixed number of items of every study, in an individual order. Three raters rate each item (all raters, if
there are fewer), so an item rendered for one of them is sometimes shown to another.
"""

import json
import random
import sys
import uuid
from collections.abc import Iterator
from typing import Any

from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore as PlainSession
from django.db import transaction
from django.utils import timezone

from bench import bulk_site
from ratings.accounts import SessionStore
from ratings.blinding import pair_digest, payload_digest
from ratings.models import Assignment, GuideVersion, Item, Rater, RaterProfile, Study
from ratings.models.studies import TRANSITION
from ratings.protocol import Arm
from ratings.studies import rendered_items
from ratings.studies.item_counts import update_item_counts

RATINGS_PER_ITEM = 3  # ratings per item


@transaction.atomic
def create_studies(raters: int, studies: int, items: int) -> list[dict[str, Any]]:
    """Return, for each rater, the session keys (of the site and of the floor) and the first address of each study."""
    payloads = list(bulk_site.iter_reference_payloads())
    users = [User.objects.create(username=f"rater-{n}", password="!") for n in range(raters)]
    RaterProfile.objects.bulk_create(RaterProfile(user=user, answered_at=timezone.now()) for user in users)
    starts = [create_study(f"study-{n}", users, items, payloads, random.Random(n)) for n in range(studies)]
    return [
        {
            "site": create_session(SessionStore(), user),
            "floor": create_session(PlainSession(), user),
            "starts": list(addresses),
        }
        for user, addresses in zip(users, zip(*starts, strict=True), strict=True)
    ]


def create_study(
    slug: str, users: list[User], items: int, payloads: list[dict[str, Any]], rng: random.Random
) -> Iterator[str]:
    """Create one study and return each rater's first address."""
    ratings_per_item, now = min(RATINGS_PER_ITEM, len(users)), timezone.now()
    document = {
        "name": slug, "slug": slug, "kind": TRANSITION, "question": "Is the outcome plausible?", "practice": 0, "seed": 1,
        "sources": [{"cast": "offline", "perturbation": "none", "count": 1}], "ratings_per_item": ratings_per_item, "raters": len(users),
    }  # fmt: skip
    study = Study.objects.create(
        slug=slug, name=slug, kind=TRANSITION, question=document["question"], protocol=document, seed=1,
        ratings_per_item=ratings_per_item, status="open", opened_at=now,
    )  # fmt: skip
    GuideVersion.objects.create(study=study, number=1, text="")
    times = dict.fromkeys(("invited_at", "consented_at", "practised_at", "started_at", "last_seen_at"), now)
    raters = Rater.objects.bulk_create(
        Rater(study=study, user=user, number=n, label=f"R{n:02}", guide_seen=1, **times)
        for n, user in enumerate(users, 1)
    )
    created_items = Item.objects.bulk_create(iter_items(study, items * len(users) // ratings_per_item, payloads, rng))
    Assignment.objects.bulk_create(iter_assignments(created_items, raters, ratings_per_item, rng))
    update_item_counts(study.raters.all())
    # What opening a study does as well.
    rendered_items.store_rendered_items(rendered_items.render_items(created_items, [Arm()]))
    return (f"/rate/study/{rater.code}/" for rater in raters)


def iter_items(study: Study, count: int, payloads: list[dict[str, Any]], rng: random.Random) -> Iterator[Item]:
    """Yield steps of the reference protocols; a number in a parameter makes each one unique."""
    for n in range(count):
        payload = rng.choice(payloads)
        parameters = [*payload["action"]["parameters"], ["batch", f"{study.slug}/{n}"]]
        item_payload = {**payload, "action": {**payload["action"], "parameters": parameters}}
        yield Item(
            study=study,
            payload=item_payload,
            payload_sha256=payload_digest(item_payload),
            pair_sha256=pair_digest(item_payload),
            created_at=timezone.now(),
        )


def iter_assignments(
    items: list[Item], raters: list[Rater], ratings_per_item: int, rng: random.Random
) -> Iterator[Assignment]:
    slots = [(item, slot) for item in items for slot in range(ratings_per_item)]
    for number, rater in enumerate(raters):
        rater_slots = slots[number :: len(raters)]
        rng.shuffle(rater_slots)
        for position, (item, slot) in enumerate(rater_slots, 1):
            yield Assignment(item=item, rater=rater, position=position, pair=uuid.uuid4(), slot=slot + 1)


def create_session(session: Any, user: User) -> str:
    # What django.contrib.auth.login() stores, without a request.
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = "ratings.accounts.signing_in.NameOrEmail"
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.create()
    return str(session.session_key)


def main() -> None:
    json.dump(create_studies(*map(int, sys.argv[1:])), sys.stdout)
