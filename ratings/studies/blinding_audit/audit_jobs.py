"""The blinding audit as a job: it takes minutes in a large study, and no page may wait that long."""

from typing import Any

from django.contrib.auth.models import User
from django.urls import reverse

from ratings.models import Study
from ratings.studies import job_access
from ratings.studies.blinding_audit import audit_runner
from ratings.studies.blinding_audit.audit_runner import AuditError
from simulation.jobs import Outcome, Work, jobs
from simulation.models import Job

JOB_KIND = "audit"


def request_audit(study: Study, by: User | None = None) -> Job:
    """Return the job of the audit of this study that is under way, or start one.

    Raises AuditError if there is nothing to audit.
    """
    # Refused at once, so that the page can show the reason; the job checks again when it starts.
    audit_runner.require_opened(study)
    return jobs.request_job(JOB_KIND, {"study": study.pk}, subject=job_access.format_subject(study), user=by)


def find_unfinished_audit(study: Study) -> Job | None:
    """Return the job of the last audit that was requested for this study, or None if that audit ended with a report."""
    # Not those of a deleted draft that had the same slug.
    audit_jobs = Job.objects.filter(
        subject=job_access.format_subject(study), kind=JOB_KIND, created_at__gte=study.created_at
    )
    last_job: Job | None = audit_jobs.order_by("-pk").first()
    return last_job if last_job and last_job.status != "done" else None


@jobs.register_handler(JOB_KIND)
def _run_audit_job(work: Work) -> Outcome:
    study = Study.objects.filter(pk=work.params["study"]).first()
    if study is None:
        raise jobs.JobFailed("The study no longer exists.")
    try:
        report = audit_runner.inspect_study(study, lambda done, of: work.report_progress(done, of, _describe_step(of)))
    except AuditError as error:
        raise jobs.JobFailed(f"{error}.") from error
    return work.finish_job(lambda: _store_report(study, report, work.job))


def _describe_step(raters: int) -> str:
    return "Raters' pages visited" if raters else "Copying the database and comparing the stored items"


def _store_report(study: Study, report: dict[str, Any], job: Job) -> Outcome:
    audit = audit_runner.store_report(study, report, job.asked_by)
    return {
        "said": "The blinding audit passed."
        if audit.passed
        else "The blinding audit failed: the report shows what leaks, and where.",
        "href": reverse("ratings:audit", args=[study.slug]),
        "label": "The report",
        "sha256": audit.sha256,
    }
