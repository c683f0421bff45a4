"""Open studies and the seats of raters who are about to rate, as rows, for bench.rater_loop. Needs Django to be set up.

Each rater rates so many items of every study, in an order of their own; three raters rate each item (all, where there are
fewer), so what one of them has been shown is now and then shown to another.
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

WANTED = 3


@transaction.atomic
def make(raters: int, studies: int, items: int) -> list[dict[str, Any]]:
    """Who may go where: for each rater both cookies' keys (of the site, of the floor) and the first address of each study."""
    payloads = list(bulk_site.reference_payloads())
    users = [User.objects.create(username=f"rater-{n}", password="!") for n in range(raters)]
    RaterProfile.objects.bulk_create(RaterProfile(user=user, answered_at=timezone.now()) for user in users)
    starts = [_study(f"study-{n}", users, items, payloads, random.Random(n)) for n in range(studies)]
    return [
        {"site": _key(SessionStore(), user), "floor": _key(PlainSession(), user), "starts": list(addresses)}
        for user, addresses in zip(users, zip(*starts, strict=True), strict=True)
    ]


def _study(
    slug: str, users: list[User], items: int, payloads: list[dict[str, Any]], rng: random.Random
) -> Iterator[str]:
    """Where each rater starts."""
    wanted, now = min(WANTED, len(users)), timezone.now()
    document = {
        "name": slug, "slug": slug, "kind": TRANSITION, "question": "Is the outcome plausible?", "practice": 0, "seed": 1,
        "sources": [{"cast": "offline", "perturbation": "none", "count": 1}], "ratings_per_item": wanted, "raters": len(users),
    }  # fmt: skip
    study = Study.objects.create(
        slug=slug, name=slug, kind=TRANSITION, question=document["question"], protocol=document, seed=1,
        ratings_per_item=wanted, status="open", opened_at=now,
    )  # fmt: skip
    GuideVersion.objects.create(study=study, number=1, text="")
    ready = dict.fromkeys(("invited_at", "consented_at", "practised_at", "started_at", "last_seen_at"), now)
    seats = Rater.objects.bulk_create(
        Rater(study=study, user=user, number=n, label=f"R{n:02}", guide_seen=1, **ready)
        for n, user in enumerate(users, 1)
    )
    made = Item.objects.bulk_create(_items(study, items * len(users) // wanted, payloads, rng))
    Assignment.objects.bulk_create(_places(made, seats, wanted, rng))
    return (f"/rate/study/{seat.code}/" for seat in seats)


def _items(study: Study, count: int, payloads: list[dict[str, Any]], rng: random.Random) -> Iterator[Item]:
    """Steps of the reference protocols; a number in a parameter makes each one of its own."""
    for n in range(count):
        payload = rng.choice(payloads)
        parameters = [*payload["action"]["parameters"], ["batch", f"{study.slug}/{n}"]]
        own = {**payload, "action": {**payload["action"], "parameters": parameters}}
        yield Item(
            study=study,
            payload=own,
            payload_sha256=payload_digest(own),
            pair_sha256=pair_digest(own),
            created_at=timezone.now(),
        )


def _places(items: list[Item], seats: list[Rater], wanted: int, rng: random.Random) -> Iterator[Assignment]:
    turns = [(item, slot) for item in items for slot in range(wanted)]
    for number, seat in enumerate(seats):
        own = turns[number :: len(seats)]
        rng.shuffle(own)
        for position, (item, slot) in enumerate(own, 1):
            yield Assignment(item=item, rater=seat, position=position, pair=uuid.uuid4(), slot=slot + 1)


def _key(session: Any, user: User) -> str:
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = "ratings.accounts.signing_in.NameOrEmail"
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.create()
    return str(session.session_key)


def main() -> None:
    json.dump(make(*map(int, sys.argv[1:])), sys.stdout)
