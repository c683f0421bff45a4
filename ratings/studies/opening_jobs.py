"""Open large studies in a worker, whose progress the study's page shows: it takes longer than a request may."""

from django.contrib.auth.models import User
from django.urls import reverse

from ratings.models import Study
from ratings.protocol import PlanError, ProtocolError
from ratings.studies import StudyError, access, designs, freeze, lifecycle
from simulation.jobs import Outcome, Work, jobs
from simulation.models import Job

JOB_KIND = "opening"
MIN_JOB_ITEMS = 500  # smaller studies open within the request, in a second or two


def is_large(draft: Study) -> bool:
    """Return whether the draft requests so many items that a worker should open it."""
    requested = sum(source.count for source in designs.load_study_protocol(draft).sources)
    return requested + draft.imported_items.count() >= MIN_JOB_ITEMS


def request_opening(draft: Study, by: User) -> Job:
    """Return the job that opens this draft: one that is under way, or a new one."""
    return jobs.request_job(JOB_KIND, {"study": draft.pk}, subject=access.format_subject(draft), user=by)


def find_opening(draft: Study) -> Job | None:
    """Return the last job that was requested to open this draft, or None."""
    requested = Job.objects.filter(kind=JOB_KIND, params__study=draft.pk, created_at__gte=draft.created_at)
    job: Job | None = requested.order_by("-pk").first()
    return job


@jobs.register_handler(JOB_KIND)
def _run_opening(work: Work) -> Outcome:
    study = Study.objects.filter(pk=work.params["study"]).first()
    if study is None:
        raise jobs.JobFailed("The study no longer exists.")
    # Opened since the request: a worker that ended after it had opened the study, or somebody else, whose items need HTML too.
    if study.opened_at is None or study.opened_at < work.job.created_at:
        try:
            lifecycle.open_study(study, by=work.job.asked_by, report=work.report_progress, commit=work.commit_write)
        except ProtocolError as error:
            raise jobs.JobFailed(f"The study cannot be opened: {'; '.join(error.problems)}.") from error
        except (StudyError, PlanError) as error:
            raise jobs.JobFailed(f"{error}.") from error
    freeze.render_items(study, report=work.report_progress)
    href = reverse("ratings:study", args=[study.slug])
    return {"said": "The study is open. You can now invite raters.", "href": href, "label": "The study"}
