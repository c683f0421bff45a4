"""Find the studies that can be compared with a study, and request the job that compares two
(ratings.results.comparison_job).
"""

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
    """Return the studies that this user may compare with `study`: unblinded, of the same kind, and visible to the
    user.
    """
    studies = access.list_studies(user).filter(status="unblinded", kind=study.kind)
    # Rates can only be compared if raters answered the same question, so only studies of the same kind are offered.
    return studies.exclude(pk=study.pk).order_by("name", "pk")


def request_comparison(study: Study, other: Study, user: User) -> Job:
    """Return the job that compares the current ratings of two studies; it can be new, in progress or done."""
    params = {
        "study": str(study.code),
        "other": str(other.code),
        # The digests are parameters of the job, so that a finished job is reused only if no rating has changed since.
        "states": [state_digest.compute_state_digest(study), state_digest.compute_state_digest(other)],
        "version": document_format.VERSION,
    }
    return jobs.request_job(KIND, params, subject=job_access.format_subject(study), user=user, reuse=True)
