"""Who may see which studies, raters and assignments. Every view loads these objects through this module.

A request for an object that the user may not see is answered like one for an object that does not exist (404), so a
URL reveals nothing.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple
from uuid import UUID

from django.contrib.auth.models import AnonymousUser, User
from django.db import transaction
from django.db.models import Q, QuerySet
from django.http import Http404

from ratings.accounts import signing_in
from ratings.models import Assignment, Membership, MembershipChange, Rater, Study
from ratings.models.study_events import MemberChanged
from ratings.studies import StudyError, readable_elsewhere, reassign, rendered_items
from ratings.studies.lifecycle import Actor, log_event
from simulation.models import Job
from wetbench_site.prepared_queries import PreparedQuery

Visitor = User | AnonymousUser
ROLES = dict(Membership.ROLES)
# Analysts see the progress of these jobs. Only admins of the study start, stop and retry them.
ADMIN_JOB_KINDS = ("audit", "import_items", "import_ratings", "machine_rating", "opening")
_OPENED_STATUSES = ("open", "paused", "closed", "unblinded")


def get_role(user: Visitor, study: Study) -> str:
    """Return "superuser", "admin" (creator or appointed) or "analyst" of this study; "" for everyone else."""
    if not user.is_authenticated:
        return ""
    if user.is_superuser:
        return "superuser"
    if user.is_staff and study.created_by_id == user.pk:
        return "admin"
    # The creator of a study who is no longer staff has only the role they were given.
    member = study.members.filter(user_id=user.pk).first()
    return member.role if member else ""


def get_study_or_404(user: Visitor, name: str, *roles: str) -> Study:
    """Return the study with this slug for users who have one of these roles in it; superusers have every role."""
    study = Study.objects.filter(slug=name).first() if user.is_authenticated else None
    # One answer for a missing study and a missing role: a 403 would reveal that the study exists.
    if study is None or get_role(user, study) not in ("superuser", *roles):
        raise Http404
    return study


def list_studies(user: Visitor) -> QuerySet[Study]:
    """Return the studies in which this user has a role."""
    if not user.is_authenticated:
        return Study.objects.none()
    if user.is_superuser:
        return Study.objects.all()
    # A subquery and not a join, which would repeat a study for each role.
    is_member = Q(pk__in=Membership.objects.filter(user_id=user.pk).values("study"))
    return Study.objects.filter(is_member | Q(created_by_id=user.pk) if user.is_staff else is_member)


def list_managed_studies(user: Visitor) -> QuerySet[Study]:
    """Return the studies that this user may change."""
    if not user.is_authenticated:
        return Study.objects.none()
    if user.is_superuser:
        return Study.objects.all()
    as_admin = Q(pk__in=Membership.objects.filter(user_id=user.pk, role="admin").values("study"))
    return Study.objects.filter(as_admin | Q(created_by_id=user.pk) if user.is_staff else as_admin)


def list_raters(user: Visitor) -> QuerySet[Rater]:
    """Return this user's raters in studies that were opened, including those who withdrew."""
    if not user.is_authenticated:
        return Rater.objects.none()
    return Rater.objects.select_related("study").filter(user_id=user.pk, study__status__in=_OPENED_STATUSES)


def get_rater_or_404(user: Visitor, code: UUID) -> Rater:
    if (rater := list_raters(user).filter(code=code).first()) is None:
        raise Http404
    return rater


def get_assignment_or_404(user: Visitor, code: UUID, *, to_show: bool = False) -> Assignment:
    """Return the user's own assignment, never anyone else's.

    Assignments of a rater who withdrew raise 404. As `stored_layout` it has the layout in which the item is shown, if that is
    known; with `to_show` instead the rating, the unsaved answer and, as `html`, the stored HTML of the item. The item
    itself, which is large, is loaded only if it is read.
    """
    query = _OWN_ASSIGNMENT_TO_SHOW if to_show else _OWN_ASSIGNMENT
    assignment = query.find_first(code, user.pk) if user.is_authenticated else None
    if assignment is None:
        raise Http404
    return assignment


# What nearly all requests read. Other columns are loaded if they are read: converting them takes longer than the query.
_READ_COLUMNS = (
    "code", "item_id", "occasion", "session", "layout", "with_context", "marks", "opened_at", "reserved_until", "released_at",
    "answered_at",
    *(f"rater__{name}" for name in (
        "code", "study_id", "user_id", "consented_at", "practised_at", "finished_at", "withdrawn_at", "guide_seen",
        "answered_items", "waiting_items",
    )),
    *(f"rater__study__{name}" for name in ("kind", "name", "question", "protocol", "status", "guide", "guide_version")),
)  # fmt: skip


def _filter_own_assignments(code: UUID, user: int) -> QuerySet[Assignment]:
    rows = Assignment.objects.select_related("rater__study").only(*_READ_COLUMNS).order_by()
    rows = rows.filter(rater__user_id=user, rater__study__status__in=_OPENED_STATUSES)
    return rows.filter(code=code, rater__withdrawn_at__isnull=True)


def _filter_assignments_to_answer(code: UUID, user: int) -> QuerySet[Assignment]:
    return _filter_own_assignments(code, user).annotate(stored_layout=rendered_items.select_layout())


def _filter_assignments_to_show(code: UUID, user: int) -> QuerySet[Assignment]:
    # `only` once more: a related object without named columns has none.
    rows = _filter_own_assignments(code, user).select_related("rater__study", "rating", "unsaved_answer")
    return rows.only(*_READ_COLUMNS, "rating", "unsaved_answer").annotate(html=rendered_items.select_html())


# One of them runs with every item that a rater opens or answers.
_OWN_ASSIGNMENT = PreparedQuery(_filter_assignments_to_answer, "uuid", "number")
_OWN_ASSIGNMENT_TO_SHOW = PreparedQuery(_filter_assignments_to_show, "uuid", "number")


@transaction.atomic
def add_member(study: Study, account_name: str, role: str, by: Actor = None) -> Membership:
    """Give a role to a user, found by user name or e-mail address. A role that they have in the study is replaced.

    Raises StudyError if there is no such account, or if it may not have this role.
    """
    name = account_name.strip()
    account = User.objects.filter(username=name, is_active=True).first()
    account = account or (signing_in.find_by_email(name) if name else None)
    if account is None:
        raise StudyError(f"There is no account {name[:80]!r}. A superuser can create one")
    # The account and then the study are locked: nobody can join as a rater at the same time, neither here nor with
    # this account in another study.
    user = User.objects.select_for_update(no_key=True).get(pk=account.pk)
    study = Study.objects.select_for_update().get(pk=study.pk)
    if role not in ROLES:
        raise StudyError(f"{role[:20]!r} is not a role; roles: {', '.join(ROLES)}")
    if user.is_superuser or user.pk == study.created_by_id:
        raise StudyError(f"{user.get_username()} already has every right in this study")
    if role == "admin" and not user.is_staff:
        problem = "may not run studies. A superuser can allow it by making the account staff"
        raise StudyError(f"{user.get_username()} {problem}")
    if role == "admin" and not study.is_unblinded and readable_elsewhere.took_interim_analysis(study, user):
        raise StudyError(
            f"{user.get_username()} has taken an interim analysis. Users who have seen results cannot manage the study before it is unblinded"
        )
    if study.raters.filter(user=user).exists():
        raise StudyError(f"{user.get_username()} is a rater of this study. Raters must not see where items come from")
    member, _ = Membership.objects.update_or_create(study=study, user=user, defaults={"role": role})
    _record_change(study, user, role, by, granted=True)
    # From now on this user can read the sources of these items, which may be theirs to rate in another study.
    if study.is_unblinded:
        reassign.release_items_of_account(user)
    return member


@transaction.atomic
def remove_member(study: Study, member: Membership, by: Actor = None) -> None:
    """Remove a member's role. Raises StudyError for one's own role, because the study could be left without an admin."""
    if by is not None and member.user_id == by.pk and get_role(by, study) != "superuser":
        raise StudyError("You cannot remove yourself; ask another admin of this study")
    member.delete()
    _record_change(study, member.user, member.role, by, granted=False)


def _record_change(study: Study, user: User, role: str, by: Actor, *, granted: bool) -> None:
    """Store the change for authorisation, and add it to the study's log for people."""
    MembershipChange.objects.create(study=study, user=user, role=role, granted=granted, by=by)
    stored_role: Literal["admin", "analyst"] = "admin" if role == "admin" else "analyst"
    log_event(study, MemberChanged(account=user.pk, role=stored_role, granted=granted), by)


class JobAccess(NamedTuple):
    """A job, the study it is about (None for a benchmark), and what the user may do with it."""

    job: Job
    study: Study | None
    role: str  # "superuser", "admin" or "analyst" in the study; "staff" with a benchmark
    may_control: bool


def get_job_or_404(user: Visitor, code: UUID) -> JobAccess:
    """Return the job with this code for admins and analysts of its study, or for staff if it is a benchmark."""
    job = Job.objects.filter(code=code).first() if user.is_authenticated else None
    if job is None:
        raise Http404
    return get_job_access(user, job)


def get_job_access(user: Visitor, job: Job) -> JobAccess:
    """Return what this user may do with the job. Raises 404 if the user may not see it."""
    study = _get_study_of_subject(user, job.subject)
    if study is None:
        return JobAccess(job, None, "staff", True)
    if _is_of_earlier_study(job, study):
        raise Http404
    role = get_role(user, study)
    return JobAccess(job, study, role, role != "analyst" or job.kind not in ADMIN_JOB_KINDS)


def find_visible_jobs(user: User, jobs: Sequence[Job]) -> set[int]:
    """Return the keys of the given jobs that this user may see."""
    visible: set[int] = set()
    # By subject and not by job: two queries for each study, however many jobs it has.
    for job_subject in {job.subject for job in jobs}:
        try:
            study = _get_study_of_subject(user, job_subject)
        except Http404:
            continue
        jobs_of_subject = [job for job in jobs if job.subject == job_subject]
        visible |= {job.pk for job in jobs_of_subject if study is None or not _is_of_earlier_study(job, study)}
    return visible


def is_sealed(job: Job) -> bool:
    """Return whether this is a job of a model rater in a study that is not unblinded."""
    subject_kind, _, slug = job.subject.partition("/")
    # Its verdicts are shown nowhere before unblinding, not even to staff.
    if job.kind != "machine_rating" or subject_kind != "study":
        return False
    return Study.objects.filter(slug=slug).exclude(status="unblinded").exists()


def format_subject(study: Study) -> str:
    """Return the subject under which the jobs of a study are stored."""
    return f"study/{study.slug}"


def _get_study_of_subject(user: Visitor, job_subject: str) -> Study | None:
    """Return the study of this subject, or None for a benchmark. Raises 404 for users who may not see it."""
    subject_kind, _, slug = job_subject.partition("/")
    if subject_kind == "study":
        return get_study_or_404(user, slug, "admin", "analyst")
    if not (isinstance(user, User) and user.is_staff):
        raise Http404
    return None


def _is_of_earlier_study(job: Job, study: Study) -> bool:
    # A deleted draft leaves its jobs, and its slug may be used again: the new study's people must not see them.
    return bool(job.created_at < study.created_at)
