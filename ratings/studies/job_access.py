"""Who may see a job, and who may stop it or start it again.

A request for a job that the user may not see is answered like one for a job that does not exist (404).
"""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from django.contrib.auth.models import User
from django.http import Http404

from ratings.models import Study
from ratings.studies import access
from simulation.models import Job

# Analysts see the progress of these. Only admins of the study start, stop and retry them.
ADMIN_JOB_KINDS = ("audit", "import_items", "import_ratings", "machine_rating")


class JobAccess(NamedTuple):
    """A job, the study it is about (None for a benchmark), and what the user may do with it."""

    job: Job
    study: Study | None
    role: str  # "superuser", "admin" or "analyst" in the study; "staff" with a benchmark
    may_control: bool


def get_job_or_404(user: access.Visitor, code: UUID) -> JobAccess:
    """Return the job with this code for those who may see its subject: admins and analysts of a study, staff for a
    benchmark.
    """
    job = Job.objects.filter(code=code).first() if user.is_authenticated else None
    if job is None:
        raise Http404
    return get_job_access(user, job)


def get_job_access(user: access.Visitor, job: Job) -> JobAccess:
    """Return what this user may do with the job. Raises 404 if the user may not see it."""
    study = _get_study_of_subject(user, job.subject)
    if study is None:
        return JobAccess(job, None, "staff", True)
    if _is_of_earlier_study(job, study):
        raise Http404
    role = access.get_role(user, study)
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


def _get_study_of_subject(user: access.Visitor, job_subject: str) -> Study | None:
    """Return the study of this subject, or None for a benchmark. Raises 404 for users who may not see it."""
    subject_kind, _, slug = job_subject.partition("/")
    if subject_kind == "study":
        return access.get_study_or_404(user, slug, "admin", "analyst")
    if not (isinstance(user, User) and user.is_staff):
        raise Http404
    return None


def _is_of_earlier_study(job: Job, study: Study) -> bool:
    """Return whether the job belongs to an earlier draft with the same slug."""
    # A deleted draft leaves its jobs, and its slug may be used again: the new study's people must not see them.
    return bool(job.created_at < study.created_at)
