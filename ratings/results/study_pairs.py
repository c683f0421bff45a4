"""Two unblinded studies to compare: which can be, and the request for the job that does it (ratings.results.comparison_work)."""

from django.contrib.auth.models import User
from django.db.models import QuerySet

from ratings.models import Study
from ratings.results.analyses import form
from ratings.studies import access, job_access
from ratings.studies.progress import state_digest
from simulation.jobs import jobs
from simulation.models import Job

KIND = "comparison"


def find_others(user: User, study: Study) -> QuerySet[Study]:
    """Return the studies that this user may compare this one with: unblinded, of the same kind, and open to them."""
    found = access.studies_of(user).filter(status="unblinded", kind=study.kind)
    return found.exclude(pk=study.pk).order_by("name", "pk")


def request_comparison(study: Study, other: Study, by: User) -> Job:
    """Return the job that compares the two as their ratings are now: newly asked for, under way, or done."""
    params = {
        "study": str(study.code),
        "other": str(other.code),
        "states": [state_digest.mark(study), state_digest.mark(other)],
        "version": form.VERSION,
    }
    return jobs.request(KIND, params, subject=job_access.subject(study), by=by, reuse=True)
