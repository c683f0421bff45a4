"""A small open study with raters but without a pool, for tests of invitations and links."""

import re
from typing import Any

from django.contrib.auth.models import AnonymousUser, User
from django.test import Client
from django.utils import timezone

from ratings.models import Assignment, Item, Rater, Study
from ratings.raters import invitations
from ratings.raters.invitations import JoinForm
from ratings.studies.item_counts import update_item_counts

STRANGER = AnonymousUser()
PROFILE = {"degree": "Doctorate (PhD, DPhil, MD)", "field": "cell biology", "years": "9"}
CONSENT_FORM = {"consent": "on", **PROFILE}


def create_small_study(
    raters: int = 2, items: int = 2, slug: str = "small", by: User | None = None, **protocol: Any
) -> Study:
    """Create an open study in which every rater rates every item. `protocol` replaces fields of the plain document."""
    defaults = {"name": "Small study", "slug": slug, "kind": "transition_plausibility", "sources": [], "seed": 1}
    created = Study.objects.create(
        slug=slug, name="Small study", kind="transition_plausibility", question="Could this be?", seed=1,
        protocol={**defaults, "ratings_per_item": raters, **protocol}, ratings_per_item=raters or 1, status="open",
        created_by=by,
    )  # fmt: skip
    rows = [Item.objects.create(study=created, payload={}, payload_sha256=f"{n:064}", created_at=timezone.now()) for n in range(items)]  # fmt: skip
    for number in range(1, raters + 1):
        rater = Rater.objects.create(study=created, number=number, label=f"R{number:02}")
        for position, item in enumerate(rows, 1):
            Assignment.objects.create(item=item, rater=rater, position=position, pair=item.code, slot=number)
    update_item_counts(created.raters.all())
    return created


def get_rater(of: Study | None = None, label: str = "R01") -> Rater:
    return (of or create_small_study()).raters.get(label=label)


def join_by_link(of: Rater, email: str = "") -> Rater:
    """Return the rater after a new person has accepted an invitation."""
    token = invitations.create_invitation(of, email=email)
    invitation = invitations.find_invitation(token)
    assert invitation is not None
    return invitations.accept_invitation(invitation, STRANGER, JoinForm())


def post_consent(client: Client, token: str, **answers: str) -> Any:
    """Post the consent page of this link."""
    return client.post(f"/r/{token}/", {**CONSENT_FORM, **answers})


def find_link(text: str) -> str:
    """Return the path of the personal link in an e-mail."""
    match = re.search(r"https?://[^/\s]+(/r/\S+/)", text)
    assert match is not None, text
    return match[1]
