"""The write side of a study: create, open, invite, rate, close, unblind. Each is one transaction."""

from contextlib import suppress
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from ratings import opening, pool, protocols
from ratings.models import GuideVersion, Study, StudyEvent
from ratings.pool import Stock
from ratings.protocols import ProtocolError, StudyProtocol

Actor = User | None


class StudyError(ValueError):
    """The study does not allow this now; the message says why, for people."""


class StudyClosed(StudyError):  # noqa: N818  # a state the rater is told about, not a fault
    """The study takes no ratings (any more)."""


def find(name: str) -> Study:
    """The study of that slug or code; StudyError lists those there are."""
    wanted = Q(slug=name)
    with suppress(ValueError):  # then it can only be a slug
        wanted |= Q(code=UUID(name))
    if study := Study.objects.filter(wanted).first():
        return study
    known = ", ".join(Study.objects.values_list("slug", flat=True)) or "none yet"
    raise StudyError(f"There is no study {name[:80]!r}. Known studies: {known}")


def read_protocol(data: Any) -> StudyProtocol:
    """A study document checked against the casts and experiments of this laboratory; else ProtocolError."""
    return protocols.read(data, pool.known_casts(), pool.known_experiments())


def pool_report(protocol: StudyProtocol) -> list[Stock]:
    """For each source how many items the study wants and how many the pool holds."""
    return pool.stock(protocol)


@transaction.atomic
def create_study(protocol: StudyProtocol, by: Actor = None) -> Study:
    """A draft. A slug that is taken is a ProtocolError, also if another request takes it at this moment."""
    study, created = Study.objects.get_or_create(
        slug=protocol.slug,
        defaults={
            "name": protocol.name,
            "kind": protocol.kind,
            "question": protocol.question,
            "protocol": protocol.to_json(),
            "seed": protocol.seed,
            "ratings_per_item": protocol.ratings_per_item,
            "guide": protocol.guide,
            "deadline": protocol.deadline,
            "created_by": by,
        },
    )
    if not created:
        raise ProtocolError([f"slug: {protocol.slug!r} is the slug of another study; give a new one"])
    GuideVersion.objects.create(study=study, number=1, text=protocol.guide, by=by)
    log(study, "created", by)
    return study


@transaction.atomic
def open_study(study: Study, raters: int | None = None, by: Actor = None) -> None:
    """Choose the items, freeze them blinded, make the seats and say who rates what. PlanError if it cannot be done."""
    study = _locked(study, "open", needs="draft")
    protocol = read_protocol(study.protocol)
    filled = opening.fill(study, protocol, raters or protocol.raters)
    study.protocol["raters"] = filled.seats
    study.save(update_fields=["protocol"])
    _move(
        study,
        "open",
        by,
        f"{filled.items} item{'s' * (filled.items != 1)}, {filled.seats} rater{'s' * (filled.seats != 1)}",
        opened_at=timezone.now(),
    )


@transaction.atomic
def close(study: Study, by: Actor = None) -> None:
    """No more ratings; those given stay sealed."""
    _move(_locked(study, "close", needs="open"), "closed", by, closed_at=timezone.now())


@transaction.atomic
def reopen(study: Study, by: Actor = None) -> None:
    """Take ratings again; not once anyone may have seen where the items came from."""
    _move(_locked(study, "reopen", needs="closed"), "open", by, event="reopened", closed_at=None)


@transaction.atomic
def unblind(study: Study, by: Actor) -> None:
    """Break the seal, for good: an open study is closed first. Doing it again changes nothing."""
    study = Study.objects.select_for_update().get(pk=study.pk)
    if study.is_unblinded:
        return
    if study.is_open:
        close(study, by)
        study.refresh_from_db()
    _move(_locked(study, "unblind", needs="closed"), "unblinded", by, unblinded_at=timezone.now())


def log(study: Study, kind: str, by: Actor = None, detail: str = "") -> None:
    """One line in the study's log."""
    StudyEvent.objects.create(study=study, kind=kind, by=by, detail=detail[:300])


def _locked(study: Study, verb: str, needs: str) -> Study:
    row = Study.objects.select_for_update().get(pk=study.pk)
    if row.status != needs:
        raise StudyError(f"{row.name} is {row.status}; only a study that is {needs} can be {_PAST[verb]}")
    return row


_PAST = {"open": "opened", "close": "closed", "reopen": "reopened", "unblind": "unblinded"}
_EVENTS = {"open": "opened", "closed": "closed", "unblinded": "unblinded"}


def _move(study: Study, status: str, by: Actor, detail: str = "", event: str = "", **times: datetime | None) -> None:
    if not study.may_become(status):
        raise StudyError(f"{study.name} is {study.status} and cannot become {status}")
    Study.objects.filter(pk=study.pk).update(status=status, **times)
    log(study, event or _EVENTS[status], by, detail)
