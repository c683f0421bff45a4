"""The write side of a study: create, open, invite, rate, close, unblind. Each is one transaction."""

from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Count, Q
from django.utils import timezone

from ratings import access, opening, pool, protocols
from ratings.models import Assignment, Rater, Rating, Study, StudyEvent
from ratings.pool import Stock
from ratings.protocols import ProtocolError, StudyProtocol

Actor = User | None


class StudyError(ValueError):
    """The study does not allow this now; the message says why, for people."""


class StudyClosed(StudyError):  # noqa: N818  # a state the rater is told about, not a fault
    """The study takes no ratings (any more)."""


class RateResult(NamedTuple):
    """The rating that stands. `created`: by this submission just now; `same`: by this submission, then or now, as sent."""

    rating: Rating
    created: bool
    same: bool


class Progress(NamedTuple):
    done: int
    total: int


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
            "guide_version": protocols.GUIDE_VERSION,
            "created_by": by,
        },
    )
    if not created:
        raise ProtocolError([f"slug: {protocol.slug!r} is the slug of another study; give a new one"])
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
def invite(rater: Rater, by: Actor = None) -> str:
    """A new personal link for this seat; earlier ones stop working. Returns its token, which is kept nowhere."""
    Study.objects.select_for_update().get(pk=rater.study_id)  # seats may be dealt anew at the same time
    rater = Rater.objects.select_related("study", "user").get(pk=rater.pk)
    if rater.simulated:
        raise StudyError(f"{rater.label} is a simulated rater; it gets no link")
    if not rater.study.is_open:
        raise StudyClosed(f"{rater.study.name} is {rater.study.status}; links are made while a study is open")
    token = access.make_link(rater.user, "rater")
    rater.invited_at = timezone.now()
    rater.save(update_fields=["invited_at"])
    log(rater.study, "invited", by, rater.label)
    return token


def invite_seat(study: Study, label: str, by: Actor = None) -> str:
    """A new link for the seat of that label; StudyError lists the labels there are."""
    if rater := study.raters.filter(label=label).first():
        return invite(rater, by)
    known = ", ".join(study.raters.values_list("label", flat=True)) or "none before the study is opened"
    raise StudyError(f"{study.slug} has no rater {label!r}. Raters: {known}")


@transaction.atomic
def start(rater: Rater) -> None:
    """The rater has read the guide: from now on the link works in no other browser."""
    Rater.objects.filter(pk=rater.pk, started_at__isnull=True).update(started_at=timezone.now())
    access.mark_used(rater.user)


def next_assignment(rater: Rater) -> Assignment | None:
    """The first item in the rater's order without a rating; None when all are done."""
    return rater.assignments.filter(rating__isnull=True).select_related("item").order_by("position").first()


def progress(rater: Rater) -> Progress:
    counted = rater.assignments.aggregate(done=Count("rating"), total=Count("pk"))
    return Progress(counted["done"], counted["total"])


def mark_opened(assignment: Assignment) -> None:
    """The item is being shown; only the first time counts."""
    now = timezone.now()
    if Assignment.objects.filter(pk=assignment.pk, opened_at__isnull=True).update(opened_at=now):
        assignment.opened_at = now


@transaction.atomic
def rate(
    assignment: Assignment, verdict: bool, confidence: int, submission_id: UUID, now: datetime | None = None
) -> RateResult:
    """Write the rating, once. Whatever is submitted later gets the rating that stands."""
    study = Study.objects.select_for_update(of=("self",)).get(raters__assignments=assignment.pk)
    place = Assignment.objects.select_for_update().get(pk=assignment.pk)
    if standing := Rating.objects.filter(assignment=place).first():
        sent = (submission_id, verdict, confidence)
        same = sent == (standing.submission_id, standing.verdict, standing.confidence)
        return RateResult(standing, created=False, same=same)
    if not study.is_open:
        raise StudyClosed(f"{study.name} is closed and takes no more ratings.")
    if confidence not in range(1, 6):
        raise ValueError(f"confidence is {confidence!r}; it must be 1 to 5")
    if Rating.objects.filter(submission_id=submission_id).exists():
        raise StudyError("This form was sent before for another item; reload the page and choose again.")
    submitted = now or timezone.now()
    opened = min(place.opened_at or submitted, submitted)
    made = Rating.objects.create(
        assignment=place,
        verdict=verdict,
        confidence=confidence,
        submission_id=submission_id,
        opened_at=opened,
        submitted_at=submitted,
        seconds=(submitted - opened).total_seconds(),
    )
    return RateResult(made, created=True, same=True)


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


@transaction.atomic
def replan(study: Study, raters: int) -> None:
    """Give what nobody has been asked to rate yet to `raters` new seats in place of the free ones."""
    free = free_seats(study)
    opening.deal_again(study, free, raters)
    log(study, "replanned", None, f"{len(free)} free seats became {raters}")


def free_seats(study: Study) -> list[Rater]:
    """Seats that nobody was invited to and nobody simulates, in order."""
    return list(study.raters.filter(invited_at__isnull=True, simulated=False, started_at__isnull=True).order_by("pk"))


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
