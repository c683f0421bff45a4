"""The life of a study: draft, open, paused, closed, unblinded. Each change is one transaction and one event."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import ProtectedError, Q, QuerySet
from django.utils import timezone

from ratings.models import GuideVersion, ImportedItem, Study, StudyEvent, study_events
from ratings.models.study_events import Content, Created, Duplicated, Edited, GuideRevised, Opened, Reopened
from ratings.protocol import KnownNames, ProtocolError, StudyProtocol, study_protocol
from ratings.studies import StudyError, designs, freeze, pool, preparations, reassign
from ratings.studies.preparations import PreparationGone
from simulation.models import CatalogueEntry
from wetbench_site.observability.logs import log_security_event

Actor = User | None
_MAX_PREPARATIONS = 3  # of one opening, if what it was planned from changes each time
_RENDERED_AT_OPENING = 200  # items of a study whose items are rendered at once; a second in each display arm
_SLUG_TAKEN = "slug: {!r} is the slug of another study; choose another one"
_SECURITY_EVENT_KINDS = frozenset({"invited", "joined", "exported", "unblinded", "looked", "member", "quarantine"})


def get_study(slug_or_code: str) -> Study:
    """Return the study with this slug or code. Raises StudyError, which lists the existing studies."""
    is_match = Q(slug=slug_or_code)
    with suppress(ValueError):  # not a UUID: then it can only be a slug
        is_match |= Q(code=UUID(slug_or_code))
    if study := Study.objects.filter(is_match).first():
        return study
    known = ", ".join(Study.objects.values_list("slug", flat=True)) or "none yet"
    raise StudyError(f"There is no study {slug_or_code[:80]!r}. Known studies: {known}")


def parse_protocol(data: Any) -> StudyProtocol:
    """Return the study document, checked against the names of this laboratory. Raises ProtocolError."""
    return study_protocol.parse_protocol(data, _list_known_names())


def find_opening_problems(document: Mapping[str, Any]) -> list[str]:
    """Return the problems of this document that prevent a study from opening now, apart from missing items."""
    return study_protocol.find_problems(document, _list_known_names())


def _list_known_names() -> KnownNames:
    return KnownNames(pool.list_casts(), pool.list_experiments(), list_bench_actions())


def list_bench_actions() -> list[str]:
    """Return the actions that an item may show: all except those that only control the episode, such as submitting."""
    return list(CatalogueEntry.objects.exclude(kind="control").order_by("name").values_list("name", flat=True))


@transaction.atomic
def create_study(protocol: StudyProtocol, by: Actor = None) -> Study:
    """Create a draft. Raises ProtocolError if the slug is taken."""
    # Not a check and then an insert: another request may take the slug at this moment.
    defaults = {**_draft_columns(protocol), "created_by": by}
    study, created = Study.objects.get_or_create(slug=protocol.slug, defaults=defaults)
    if not created:
        raise ProtocolError([_SLUG_TAKEN.format(protocol.slug)])
    GuideVersion.objects.create(study=study, number=1, text=protocol.guide, by=by)
    log_event(study, Created(), by)
    return study


@transaction.atomic
def edit_draft(study: Study, protocol: StudyProtocol, by: Actor = None, part: str = "") -> Study:
    """Replace the document of the draft, log that and return the draft. Its URL changes with the slug."""
    draft = _lock_study(study, "edited", "draft")
    if Study.objects.exclude(pk=draft.pk).filter(slug=protocol.slug).exists():
        raise ProtocolError([_SLUG_TAKEN.format(protocol.slug)])
    # Columns only: the caller's object may be older than the row.
    Study.objects.filter(pk=draft.pk).update(slug=protocol.slug, **_draft_columns(protocol))
    GuideVersion.objects.filter(study=draft, number=1).update(text=protocol.guide, by=by, at=timezone.now())
    log_event(draft, Edited(part=part), by)
    draft.refresh_from_db()
    return draft


@transaction.atomic
def delete_draft(study: Study) -> None:
    """Delete the draft with its log. Nobody has been asked to rate in it, so no record is kept."""
    draft = _lock_study(study, "deleted", "draft")
    preparations.delete_preparations(draft)
    # The log, role changes and audits protect their study from deletion; those of a draft are deleted with it.
    draft.events.all().delete()
    draft.membership_changes.all().delete()
    draft.audits.all().delete()
    try:
        draft.delete()
    except ProtectedError as error:
        dependents = sorted({str(one._meta.verbose_name_plural) for one in error.protected_objects})
        raise StudyError(f"{draft.name} cannot be deleted: it has {' and '.join(dependents)}") from error


@transaction.atomic
def duplicate_study(study: Study, by: Actor = None) -> Study:
    """Create a new draft with the same document, seed and imported items, and without ratings."""
    used_slugs = set(Study.objects.values_list("slug", flat=True))
    suffixes = ["copy", *(f"copy-{number}" for number in range(2, len(used_slugs) + 3))]
    suffix = next(suffix for suffix in suffixes if f"{study.slug[:68]}-{suffix}" not in used_slugs)
    # Shortened so that slug (80) and name (120 characters) still fit with their suffix.
    slug, name = f"{study.slug[:68]}-{suffix}", f"{study.name[:105]} ({suffix.replace('-', ' ')})"
    document = {**study.protocol, "slug": slug, "name": name, "guide": study.guide}
    copy = create_study(study_protocol.load_protocol(document), by)
    imported = list(study.imported_items.all())
    for row in imported:
        # Who imported an item, and when, is copied: that person knows where the item came from.
        row.pk, row._state.adding, row.study, row.by = None, True, copy, row.by or by
    ImportedItem.objects.bulk_create(imported, batch_size=500)
    log_event(copy, Duplicated(source=study.slug), by)
    return copy


def open_study(
    study: Study,
    raters: int | None = None,
    by: Actor = None,
    report: freeze.OnProgress = lambda done, of, message: None,
    commit: Callable[[Callable[[], None]], None] = lambda publish: publish(),
) -> None:
    """Freeze the blinded items, and create raters and assignments. Raises PlanError if that is impossible.

    All of it is prepared in short transactions that nobody sees, and published in one. `commit` calls the function that
    publishes, in a transaction in which the caller can write as well.
    """
    for _ in range(_MAX_PREPARATIONS):
        draft = _read_study(study, "opened", "draft")
        protocol = parse_protocol(draft.protocol)
        if not (protocol.sources or draft.imported_items.exists()):
            raise StudyError(f"{draft.name} has no items: add a source, or import items")
        if protocol.is_crossed and raters not in (None, protocol.ratings_per_item):
            needed = f"it needs {protocol.ratings_per_item} raters, not {raters}"
            raise StudyError(f"In a crossed design every rater rates every item: {needed}")
        plan = freeze.plan_opening(draft, protocol, raters or protocol.raters, report)
        with suppress(PreparationGone), preparations.begin_preparation(draft) as preparation:
            freeze.store_opening(draft, plan, preparation, report)
            report(0, 0, "Opening the study")
            commit(lambda: _publish_opening(draft, protocol, plan, preparation, by))  # noqa: B023  # called at once
            break
    else:
        # Also if somebody else has opened or deleted the study: then this states so.
        _read_study(study, "opened", "draft")
        raise StudyError(f"{study.name} was changed each time that it was prepared for opening; open it again")
    preparations.delete_preparations(study)
    if plan.size.items <= _RENDERED_AT_OPENING:
        freeze.render_items(study)


@transaction.atomic
def _publish_opening(
    draft: Study, protocol: StudyProtocol, plan: freeze.OpeningPlan, preparation: Study, by: Actor
) -> None:
    """Give the draft what was prepared for it, and open it. Raises PreparationGone if that is outdated."""
    study = _lock_study(draft, "opened", "draft")
    if (study.protocol, study.salt) != (draft.protocol, draft.salt):
        raise StudyError(f"{study.name} was edited while it was being opened: read it again, then open it")
    if not freeze.is_current(plan, study, protocol):
        raise PreparationGone
    preparations.publish_rows(preparation, study)
    pool.record_pool_decisions(study, plan.chosen, plan.held)
    # The document states what was created, so that a duplicate opens with as many raters.
    study.protocol["raters"] = plan.size.raters
    study.save(update_fields=["protocol"])
    counts = {name: getattr(plan.size, name) for name in ("items", "raters", "left_out", "shown")}
    content = Opened(**counts, identical_cases=plan.size.alike.cases, cases=plan.size.alike.of)
    _change_status(study, "open", content, by, opened_at=timezone.now())


@transaction.atomic
def pause_study(study: Study, by: Actor = None) -> None:
    """Stop accepting ratings for some time. Raters see that the study is paused; nothing they did is lost."""
    _change_status(_lock_study(study, "paused", "open"), "paused", study_events.Paused(), by)


@transaction.atomic
def resume_study(study: Study, by: Actor = None) -> None:
    _change_status(_lock_study(study, "resumed", "paused"), "open", study_events.Resumed(), by)


@transaction.atomic
def close_study(study: Study, by: Actor = None) -> None:
    """Stop accepting ratings; those submitted remain sealed."""
    study = _lock_study(study, "closed", "open", "paused")
    _change_status(study, "closed", study_events.Closed(), by, closed_at=timezone.now())


@transaction.atomic
def reopen_study(study: Study, by: Actor = None) -> None:
    """Accept ratings again in a closed study, and reassign the items of raters who left while it was closed.

    Raises StudyError if the study is unblinded: by then its sources may have been seen.
    """
    locked = _lock_study(study, "reopened", "closed")
    reopened = Reopened()
    if not designs.is_pool_study(locked):
        dealt = reassign.assign_free_slots(locked, reassign.list_eligible_raters(locked))
        reopened = Reopened(dealt=dealt.assigned, left=dealt.unassigned)
    _change_status(locked, "open", reopened, by, closed_at=None)
    # While it was closed, other studies may have been unblinded that contain versions of its items.
    reassign.release_readable_items(locked)


@transaction.atomic
def unblind_study(study: Study, by: Actor) -> None:
    """Unblind a closed study permanently. Unblinding it again changes nothing."""
    if Study.objects.select_for_update().get(pk=study.pk).is_unblinded:
        return
    locked = _lock_study(study, "unblinded", "closed")
    _change_status(locked, "unblinded", study_events.Unblinded(), by, unblinded_at=timezone.now())
    # Insiders of this study can now read its sources, and running studies may contain versions of the same items.
    reassign.release_in_related_studies(study)


@transaction.atomic
def close_and_unblind(study: Study, by: Actor) -> None:
    """Close the study if necessary, then unblind it; for commands, which cannot ask a person in between."""
    if Study.objects.select_for_update().get(pk=study.pk).status in ("open", "paused"):
        close_study(study, by)
    unblind_study(study, by)


@transaction.atomic
def revise_guide(study: Study, text: str, by: Actor = None) -> int:
    """Store new instructions, which each rater sees before their next item, and return their version."""
    locked = _lock_study(study, "given new instructions", "open", "paused")
    text = text.replace("\r\n", "\n")  # as browsers send line breaks
    if problems := study_protocol.find_guide_problems(text):
        raise ProtocolError(problems)
    # Saving without a change must not send every rater through the guide again.
    if text == locked.guide:
        return locked.guide_version
    number = locked.guide_version + 1
    Study.objects.filter(pk=locked.pk).update(guide=text, guide_version=number)
    GuideVersion.objects.create(study=locked, number=number, text=text, by=by)
    log_event(locked, GuideRevised(version=number), by)
    return number


def log_event(study: Study, content: Content, by: Actor = None) -> None:
    """Add an event to the study's log. If it concerns the seal or access, add it to the security log as well."""
    StudyEvent.record_event(study, content, by)
    if content.kind in _SECURITY_EVENT_KINDS:
        # Without the event's content: a rater's label beside an account in the log would undo the pseudonym.
        log_security_event(content.kind, None, study=study.slug, user=by.pk if by else None)


def _draft_columns(protocol: StudyProtocol) -> dict[str, Any]:
    """Return the columns of a draft that are copied from its document."""
    columns = ("name", "kind", "question", "seed", "ratings_per_item", "guide", "deadline")
    return {"protocol": protocol.to_document(), **{name: getattr(protocol, name) for name in columns}}


def _lock_study(study: Study, action: str, *statuses: str) -> Study:
    return _read_study(study, action, *statuses, rows=Study.objects.select_for_update())


def _read_study(study: Study, action: str, *statuses: str, rows: "QuerySet[Study] | None" = None) -> Study:
    current = (Study.objects if rows is None else rows).filter(pk=study.pk).first()
    if current is None:
        raise StudyError(f"{study.name} was deleted")
    if current.status not in statuses:
        needed = " or ".join(statuses)
        raise StudyError(f"{current.name} is {current.status}; only a study that is {needed} can be {action}")
    return current


def _change_status(study: Study, status: str, content: Content, by: Actor, **times: datetime | None) -> None:
    if not study.can_change_to(status):
        raise StudyError(f"{study.name} is {study.status} and cannot become {status}")
    Study.objects.filter(pk=study.pk).update(status=status, **times)
    log_event(study, content, by)
