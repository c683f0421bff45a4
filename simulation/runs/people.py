"""People at the bench: the pseudonym under which a person's episodes are stored, and the actions that they choose."""

import secrets
from collections.abc import Collection

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.db.models import F, Q

from simulation.lab.actions import Action
from simulation.models import BenchPerson, Episode
from simulation.runs import benches

HUMAN_CAST = "human"  # the cast of a person's episode is this word and the person's pseudonym
_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # without those that are easily confused
_LENGTH = 6


def get_human_cast(user: AbstractBaseUser | None) -> str:
    """Return the cast of a person's episodes: "human" and their pseudonym, which stays the same and names no account.

    Without an account it is "human" alone.
    """
    if user is None:
        return HUMAN_CAST
    letters = "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))
    person, _ = BenchPerson.objects.get_or_create(user_id=user.pk, defaults={"pseudonym": letters})
    return f"{HUMAN_CAST} {person.pseudonym}"


def find_human_cast(user: AbstractBaseUser) -> str:
    """Return the cast of a person's episodes, or "" if they have played none yet."""
    person = BenchPerson.objects.filter(user_id=user.pk).first()
    return f"{HUMAN_CAST} {person.pseudonym}" if person else ""


def is_human_cast(cast: str) -> bool:
    """Return whether episodes of this cast are played by a person."""
    return cast.partition(" ")[0] == HUMAN_CAST


@transaction.atomic
def submit_human_action(episode: Episode, action: Action, number: int) -> str:
    """Store a person's action for step `number` and queue it. Return "", or the reason why it was not accepted."""
    row = Episode.objects.select_for_update(of=("self",)).select_related("run").get(pk=episode.pk)
    # The same form sent twice must not run the action twice.
    if not row.awaits_person or row.has_ended or row.next_number != number:
        return "This step is already done, or the episode has ended. Reload the page."
    bench = benches.build_bench(row)
    action, outcome = bench.resolve_action(action)
    # Only in practice, where an action that the catalogue rejects costs no step: they see the reason and choose again.
    if outcome is not None and not outcome.success and row.run.practice:
        return outcome.failure_reason
    phase = "agent" if outcome is not None else "transition"
    # The fence rises because this changes a row outside a lease.
    changes = {"phase": phase, "pending": action.to_json(), "awaits_person": False, "fence": F("fence") + 1}
    Episode.objects.filter(pk=row.pk).update(**changes)
    return ""


def get_source_name(cast: str) -> str:
    """Return the name of a cast as a source of study items. All people are one source, so that no rater can tell them apart."""
    return HUMAN_CAST if is_human_cast(cast) else cast


def build_cast_filter(casts: Collection[str], field: str = "cast") -> Q:
    """Return the condition that the cast in `field` is one of these. The cast "human" includes every person."""
    condition = Q(**{f"{field}__in": list(casts)})
    return condition | Q(**{f"{field}__startswith": f"{HUMAN_CAST} "}) if HUMAN_CAST in casts else condition
