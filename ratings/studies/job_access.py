"""Who may see a job, and who may stop it or ask for it again. What is not yours does not exist (404)."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from django.contrib.auth.models import User
from django.http import Http404

from ratings.models import Study
from ratings.studies import access
from simulation.models import Job

# Analysts see these go on; who runs the study orders them, stops them and has them tried again.
FOR_ADMINS = ("audit", "import_items", "import_ratings", "machine_rating")


class Seen(NamedTuple):
    """A job, the study it is about (None: a benchmark's), and what the one who asks may do."""

    job: Job
    study: Study | None
    role: str  # "superuser", "admin" or "analyst" in the study; "staff" with a benchmark
    may_steer: bool


def seen(user: access.Visitor, code: UUID) -> Seen:
    """The job of that code, for those its subject is open to: a study's admins and analysts, staff for a benchmark."""
    job = Job.objects.filter(code=code).first() if user.is_authenticated else None
    if job is None:
        raise Http404
    return look(user, job)


def look(user: access.Visitor, job: Job) -> Seen:
    """What this user may do with the job; 404 where that is nothing."""
    study = _study(user, job.subject)
    if study is None:
        return Seen(job, None, "staff", True)
    if _of_another(job, study):
        raise Http404
    role = access.role_in(user, study)
    return Seen(job, study, role, role != "analyst" or job.kind not in FOR_ADMINS)


def open_to(user: User, jobs: Sequence[Job]) -> set[int]:
    """The keys of those of these jobs that this user may look at: two queries for each study, however many jobs it has."""
    found: set[int] = set()
    for about in {job.subject for job in jobs}:
        try:
            study = _study(user, about)
        except Http404:
            continue
        own = [job for job in jobs if job.subject == about]
        found |= {job.pk for job in own if study is None or not _of_another(job, study)}
    return found


def sealed(job: Job) -> bool:
    """Whether a machine rates in it for a study that is not unblinded: its verdicts show nowhere, not even to staff."""
    what, _, name = job.subject.partition("/")
    if job.kind != "machine_rating" or what != "study":
        return False
    return Study.objects.filter(slug=name).exclude(status="unblinded").exists()


def subject(study: Study) -> str:
    """What the jobs of a study are filed under."""
    return f"study/{study.slug}"


def _study(user: access.Visitor, about: str) -> Study | None:
    """The study that jobs of this subject are about, None where it is a benchmark; 404 for whom it is not there."""
    what, _, name = about.partition("/")
    if what == "study":
        return access.study_for(user, name, "admin", "analyst")
    if not (isinstance(user, User) and user.is_staff):
        raise Http404
    return None


def _of_another(job: Job, study: Study) -> bool:
    """Whether it is of a draft that had this slug before."""
    return bool(job.created_at < study.created_at)
