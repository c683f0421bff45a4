"""Pairs of unblinded studies: which can be compared, and the request for the job that does it (ratings.results.comparison_job)."""

from django.contrib.auth.models import User
from django.db.models import QuerySet

from ratings.models import Study
from ratings.results.analyses import document_format
from ratings.studies import access, job_access
from ratings.studies.progress import state_digest
from simulation.jobs import jobs
from simulation.models import Job

KIND = "comparison"


def find_comparable_studies(user: User, study: Study) -> QuerySet[Study]:
    """Return the studies this user may compare with this one: unblinded, of the same kind, and visible to the user."""
    studies = access.list_studies(user).filter(status="unblinded", kind=study.kind)
    # Contrasts compare rates of the same question, so only studies of the same kind are offered.
    return studies.exclude(pk=study.pk).order_by("name", "pk")


def request_comparison(study: Study, other: Study, user: User) -> Job:
    """Return the job that compares the two studies with their current ratings: new, in progress, or done."""
    params = {
        "study": str(study.code),
        "other": str(other.code),
        # Part of the parameters, so that a finished job is reused only while no rating changed.
        "states": [state_digest.compute_state_digest(study), state_digest.compute_state_digest(other)],
        "version": document_format.VERSION,
    }
    return jobs.request_job(KIND, params, subject=job_access.format_subject(study), user=user, reuse=True)
