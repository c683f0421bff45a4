"""The blinding audit as a job: it takes minutes in a large study, and a page waits for nothing."""

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
    """The audit of this study that is under way, or a new one. AuditError where there is nothing to audit."""
    auditing.refuse_unopened(study)
    return jobs.request(KIND, {"study": study.pk}, subject=job_access.subject(study), by=by)


def shown(study: Study) -> Job | None:
    """The last audit that was asked for, unless it ended as a certificate."""
    asked = Job.objects.filter(subject=job_access.subject(study), kind=KIND, created_at__gte=study.created_at)
    last: Job | None = asked.order_by("-pk").first()
    return last if last and last.status != "done" else None


@jobs.handles(KIND)
def _audit(work: Work) -> Outcome:
    study = Study.objects.filter(pk=work.params["study"]).first()
    if study is None:
        raise jobs.Failed("The study is not there any more.")
    try:
        report = auditing.inspect(study, lambda done, of: work.tell(done, of, _describe_step(of)))
    except AuditError as error:
        raise jobs.Failed(f"{error}.") from error
    return work.finish(lambda: _kept(study, report, work.job))


def _describe_step(raters: int) -> str:
    return "Raters' pages looked at" if raters else "Copying the database and comparing the stored items"


def _kept(study: Study, report: dict[str, Any], job: Job) -> Outcome:
    audit = auditing.store(study, report, job.asked_by)
    return {
        "said": "Blinding holds." if audit.passed else "Blinding leaks: the report says what and where.",
        "href": reverse("ratings:audit", args=[study.slug]),
        "label": "The report",
        "sha256": audit.sha256,
    }
