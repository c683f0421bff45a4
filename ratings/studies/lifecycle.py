"""The life of a study: draft, open, paused, closed, unblinded. Each move is one transaction and one line in the log."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import ProtectedError, Q
from django.utils import timezone

from ratings.models import GuideVersion, ImportedItem, Study, StudyEvent, study_events
from ratings.models.study_events import Content, Created, Duplicated, Edited, GuideRevised, Opened, Reopened
from ratings.protocol import ProtocolError, StudyProtocol, protocols
from ratings.studies import designs
from ratings.studies.errors import StudyError
from ratings.studies.pool import opening, pool
from ratings.studies.pool.pool import Stock
from ratings.studies.progress import stopping
from ratings.studies.seats import redealing, taking_back
from simulation.models import CatalogueEntry
from wetbench_site.observability.audit_log import security_event

Actor = User | None


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
    """A study document checked against the casts, experiments and actions of this laboratory; else ProtocolError."""
    return protocols.read(data, pool.known_casts(), pool.known_experiments(), known_actions())


def problems_of(document: Mapping[str, Any]) -> list[str]:
    """What keeps this document from opening here and now, the items apart; [] when it can."""
    return protocols.problems(document, pool.known_casts(), pool.known_experiments(), known_actions())


def known_actions() -> list[str]:
    """The actions an item may show: those that do something at the bench."""
    return list(CatalogueEntry.objects.exclude(kind="control").order_by("name").values_list("name", flat=True))


def pool_report(protocol: StudyProtocol, study: Study | None = None) -> list[Stock]:
    """For each source how many items the study wants and how many the pool holds."""
    return pool.stock(protocol, study)


@transaction.atomic
def create_study(protocol: StudyProtocol, by: Actor = None) -> Study:
    """A draft. A slug that is taken is a ProtocolError, also if another request takes it at this moment."""
    study, created = Study.objects.get_or_create(slug=protocol.slug, defaults={**_columns(protocol), "created_by": by})
    if not created:
        raise ProtocolError([f"slug: {protocol.slug!r} is the slug of another study; give a new one"])
    GuideVersion.objects.create(study=study, number=1, text=protocol.guide, by=by)
    log(study, Created(), by)
    return study


@transaction.atomic
def edit_draft(study: Study, protocol: StudyProtocol, by: Actor = None, part: str = "") -> Study:
    """The draft as this document has it; the address may change with it. Whoever writes last wins, and is logged."""
    row = _locked(study, "edited", "draft")
    if Study.objects.exclude(pk=row.pk).filter(slug=protocol.slug).exists():
        raise ProtocolError([f"slug: {protocol.slug!r} is the slug of another study; give a new one"])
    Study.objects.filter(pk=row.pk).update(slug=protocol.slug, **_columns(protocol))
    GuideVersion.objects.filter(study=row, number=1).update(text=protocol.guide, by=by, at=timezone.now())
    log(row, Edited(part=part), by)
    row.refresh_from_db()
    return row


@transaction.atomic
def delete_draft(study: Study) -> None:
    """Nobody was ever asked anything: nothing is kept, its log neither."""
    row = _locked(study, "deleted", "draft")
    row.events.all().delete()
    row.membership_changes.all().delete()
    row.audits.all().delete()
    try:
        row.delete()
    except ProtectedError as error:
        kept = sorted({str(one._meta.verbose_name_plural) for one in error.protected_objects})
        raise StudyError(f"{row.name} cannot be deleted: it has {' and '.join(kept)}") from error


@transaction.atomic
def duplicate(study: Study, by: Actor = None) -> Study:
    """A new draft with the same document and the same imported items, and nobody's ratings. Its seed is the same.

    Who imported an item, and when, stays: they know where it came from.
    """
    document = {**study.protocol, **_free_name(study), "guide": study.guide}
    copy = create_study(protocols.stored(document), by)
    imported = list(study.imported_items.all())
    for row in imported:
        row.pk, row._state.adding, row.study, row.by = None, True, copy, row.by or by
    ImportedItem.objects.bulk_create(imported, batch_size=500)
    log(copy, Duplicated(source=study.slug), by)
    return copy


@transaction.atomic
def open_study(study: Study, raters: int | None = None, by: Actor = None) -> None:
    """Choose the items, freeze them blinded, make the seats and say who rates what. PlanError if it cannot be done."""
    study = _locked(study, "opened", "draft")
    protocol = read_protocol(study.protocol)
    if not (protocol.sources or study.imported_items.exists()):
        raise StudyError(f"{study.name} has no items: name a source, or import items")
    if protocol.is_crossed and raters not in (None, protocol.ratings_per_item):
        raise StudyError(
            f"In a crossed design everybody rates everything: {protocol.ratings_per_item} raters, not {raters}"
        )
    filled = opening.fill(study, protocol, raters or protocol.raters)
    study.protocol["raters"] = filled.seats
    study.save(update_fields=["protocol"])
    content = Opened(
        items=filled.items,
        raters=filled.seats,
        left_out=filled.left_out,
        shown=filled.shown,
        identical_cases=filled.alike.cases,
        cases=filled.alike.of,
    )
    _move(study, "open", content, by, opened_at=timezone.now())


@transaction.atomic
def pause(study: Study, by: Actor = None) -> None:
    """Take no ratings for a while; raters are told so, and nothing they did is lost."""
    _move(_locked(study, "paused", "open"), "paused", study_events.Paused(), by)


@transaction.atomic
def resume(study: Study, by: Actor = None) -> None:
    """Take ratings again after a pause."""
    _move(_locked(study, "resumed", "paused"), "open", study_events.Resumed(), by)


@transaction.atomic
def close(study: Study, by: Actor = None) -> None:
    """No more ratings; those given stay sealed."""
    _move(_locked(study, "closed", "open", "paused"), "closed", study_events.Closed(), by, closed_at=timezone.now())


@transaction.atomic
def reopen(study: Study, by: Actor = None) -> None:
    """Take ratings again; not once anyone may have seen where the items came from. What raters left while it was closed
    is dealt to others."""
    row = _locked(study, "reopened", "closed")
    _move(row, "open", _deal_freed(row), by, closed_at=None)
    taking_back.take_back_readable(row)


@transaction.atomic
def unblind(study: Study, by: Actor) -> None:
    """Break the seal of a closed study, for good. Doing it again changes nothing."""
    if Study.objects.select_for_update().get(pk=study.pk).is_unblinded:
        return
    _move(_locked(study, "unblinded", "closed"), "unblinded", study_events.Unblinded(), by, unblinded_at=timezone.now())
    taking_back.take_back_beside(study)


@transaction.atomic
def close_and_unblind(study: Study, by: Actor) -> None:
    """Both moves at once, each logged: for commands, where nobody can be asked in between."""
    if Study.objects.select_for_update().get(pk=study.pk).status in ("open", "paused"):
        close(study, by)
    unblind(study, by)


@transaction.atomic
def revise_guide(study: Study, text: str, by: Actor = None) -> int:
    """New instructions while raters rate: another version, shown to each before their next item. Returns its number."""
    row = _locked(study, "given new instructions", "open", "paused")
    text = text.replace("\r\n", "\n")  # as browsers send line breaks
    if problems := protocols.guide_problems(text):
        raise ProtocolError(problems)
    if text == row.guide:
        return row.guide_version
    number = row.guide_version + 1
    Study.objects.filter(pk=row.pk).update(guide=text, guide_version=number)
    GuideVersion.objects.create(study=row, number=number, text=text, by=by)
    log(row, GuideRevised(version=number), by)
    return number


def stop_met(study: Study) -> bool:
    """Whether the study's stop rule is met; until then every number of it is an interim one."""
    return stopping.look(study).met


def log(study: Study, content: Content, by: Actor = None) -> None:
    """Add an event to the study's log. If it concerns the seal or access, add it to the security log, without rater labels."""
    StudyEvent.record(study, content, by)
    if content.kind in _SECURITY:
        security_event(content.kind, None, study=study.slug, user=by.pk if by else None)


_SECURITY = frozenset({"invited", "joined", "exported", "unblinded", "looked", "member", "quarantine"})


def _columns(protocol: StudyProtocol) -> dict[str, Any]:
    """What the row of a draft repeats of its document."""
    return {
        "name": protocol.name,
        "kind": protocol.kind,
        "question": protocol.question,
        "protocol": protocol.to_json(),
        "seed": protocol.seed,
        "ratings_per_item": protocol.ratings_per_item,
        "guide": protocol.guide,
        "deadline": protocol.deadline,
    }


def _deal_freed(study: Study) -> Reopened:
    """Deal what raters left while the study was closed. Return how much was dealt and how much waits for another seat."""
    if designs.is_pool(study):
        return Reopened()
    dealt = redealing.deal_free(study, redealing.takers(study))
    return Reopened(dealt=dealt.given, left=dealt.left)


def _free_name(study: Study) -> dict[str, str]:
    """The name and slug of a copy: "-copy", or the first "-copy-2", "-copy-3" ... that is free."""
    taken = set(Study.objects.values_list("slug", flat=True))
    ends = ["copy", *(f"copy-{number}" for number in range(2, len(taken) + 3))]
    end = next(end for end in ends if f"{study.slug[:68]}-{end}" not in taken)
    return {"slug": f"{study.slug[:68]}-{end}", "name": f"{study.name[:105]} ({end.replace('-', ' ')})"}


def _locked(study: Study, done: str, *needs: str) -> Study:
    row = Study.objects.select_for_update().get(pk=study.pk)
    if row.status not in needs:
        raise StudyError(f"{row.name} is {row.status}; only a study that is {' or '.join(needs)} can be {done}")
    return row


def _move(study: Study, status: str, content: Content, by: Actor, **times: datetime | None) -> None:
    if not study.may_become(status):
        raise StudyError(f"{study.name} is {study.status} and cannot become {status}")
    Study.objects.filter(pk=study.pk).update(status=status, **times)
    log(study, content, by)
