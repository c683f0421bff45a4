"""The blinding audit as a job: it takes minutes in a large study, and no page may wait that long."""

from typing import Any

from django.contrib.auth.models import User
from django.urls import reverse

from ratings.models import Study
from ratings.studies import job_access
from ratings.studies.blinding_audit import auditing
from ratings.studies.blinding_audit.auditing import AuditError
from simulation.jobs import Outcome, Work, jobs
from simulation.models import Job

KIND = "audit"


def ask(study: Study, by: User | None = None) -> Job:
    """Return the audit of this study that is under way, or start one. Raises AuditError if there is nothing to audit."""
    # Refused at once, so that the page can show the reason; the job checks again when it starts.
    auditing.refuse_unopened(study)
    return jobs.request(KIND, {"study": study.pk}, subject=job_access.subject(study), by=by)


def shown(study: Study) -> Job | None:
    """Return the last audit that was requested, unless it ended with a report."""
    # Not those of a deleted draft that had the same slug.
    audit_jobs = Job.objects.filter(subject=job_access.subject(study), kind=KIND, created_at__gte=study.created_at)
    last_job: Job | None = audit_jobs.order_by("-pk").first()
    return last_job if last_job and last_job.status != "done" else None


@jobs.handles(KIND)
def _audit(work: Work) -> Outcome:
    study = Study.objects.filter(pk=work.params["study"]).first()
    if study is None:
        raise jobs.Failed("The study no longer exists.")
    try:
        report = auditing.inspect(study, lambda done, of: work.tell(done, of, _describe_step(of)))
    except AuditError as error:
        raise jobs.Failed(f"{error}.") from error
    return work.finish(lambda: _kept(study, report, work.job))


def _describe_step(raters: int) -> str:
    return "Raters' pages visited" if raters else "Copying the database and comparing the stored items"


def _kept(study: Study, report: dict[str, Any], job: Job) -> Outcome:
    audit = auditing.store(study, report, job.asked_by)
    return {
        "said": "The blinding audit passed."
        if audit.passed
        else "The blinding audit failed: the report shows what leaks, and where.",
        "href": reverse("ratings:audit", args=[study.slug]),
        "label": "The report",
        "sha256": audit.sha256,
    }
