"""Request an archive. Requests for the same state of a study in the same variant share one file."""

from datetime import datetime, timedelta
from typing import Final, Literal, NamedTuple

from django.conf import settings
from django.contrib.auth.models import User
from django.utils import timezone

from ratings.models import Study
from ratings.models.study_events import ArchiveExported
from ratings.results.analyses import store
from ratings.results.rating_rows import check_unsealed
from ratings.studies import StudyError, access, lifecycle, progress
from simulation.jobs import job_files, jobs
from simulation.models import Job
from wetbench_site.text import hash_text

JOB_KIND: Final = "export"
BLINDED: Final = "blinded"
WITH_SOURCES: Final = "with sources"
ARCHIVE_VERSION = 7  # raise it whenever the content of archives changes: an archive of an older version is then rebuilt


def check_may_export(study: Study, blinded: bool) -> None:
    """Raise StudyError for a draft, and SealedError for sources before the study is unblinded."""
    if study.is_draft:
        raise StudyError(f"{study.name} is a draft: there is nothing to export before it is opened.")
    if not blinded:
        check_unsealed(study)


class ArchiveQuota(NamedTuple):
    """How many archives a user may create in an hour, and how many are left. `next_at` is set only if none is left."""

    limit: int
    left: int
    next_at: datetime | None


def get_quota(user: User) -> ArchiveQuota:
    """Return what is left of the user's quota. Archives that failed, and those that somebody else requested, do not count."""
    hour, limit = timedelta(hours=1), settings.EXPORTS_PER_HOUR
    requested = Job.objects.filter(kind=JOB_KIND, asked_by=user, created_at__gt=timezone.now() - hour)
    latest = requested.exclude(status="failed").order_by("-created_at").values_list("created_at", flat=True)
    times = list(latest[:limit])
    # The oldest of the last `limit` requests is the next one to be an hour old.
    return ArchiveQuota(limit, limit - len(times), times[-1] + hour if len(times) == limit else None)


def is_current(job: Job | None, current_state: str) -> bool:
    """Return whether a request in this state of the study would get this job, and so create no further archive."""
    if job is None or job.params.get("state") != current_state:
        return False
    return job.status in Job.RUNNABLE or (job.status == "done" and "files_removed" not in job.result)


def request_archive(study: Study, blinded: bool, user: User) -> Job:
    """Return a job that builds this archive, or built it from the same state; then log the export."""
    check_may_export(study, blinded)
    params = {"study": str(study.code), "variant": get_variant_name(blinded), "state": compute_state(study)}
    job = jobs.request_job(JOB_KIND, params, subject=access.format_subject(study), user=user, reuse=True)
    if job.status == "done":  # built for an earlier request: no job runs now that would log this export
        files = job_files.list_finished_files(job)
        log_export(study, blinded, user, files[0].sha256 if files else "")
    return job


def log_export(
    study: Study, blinded: bool, user: User | None, sha256: str, digest_of: Literal["zip", "SHA256SUMS"] = "zip"
) -> None:
    """Log the export of an archive in the study's log. `sha256` is the digest of the file `digest_of`."""
    lifecycle.log_event(study, ArchiveExported(blinded=blinded, sha256=sha256, of=digest_of), user)


def log_download(study: Study, job: Job, user: User, sha256: str) -> None:
    """Log the download of an archive that somebody else requested, once per person and archive."""
    # the person who requested it was logged when the job ended
    if not study.events.filter(kind="exported", by=user, data__sha256=sha256).exists():
        log_export(study, job.params["variant"] == BLINDED, user, sha256)


def get_variant_name(blinded: bool) -> str:
    """Return the name of this variant of the archive."""
    return BLINDED if blinded else WITH_SOURCES


def find_last_request(study: Study, blinded: bool) -> Job | None:
    """Return the latest job requested for this variant, or None."""
    # A slug may be used again after its study was deleted: leave out jobs from before this study was created.
    study_jobs = Job.objects.filter(
        kind=JOB_KIND, subject=access.format_subject(study), created_at__gte=study.created_at
    )
    job: Job | None = study_jobs.filter(params__variant=get_variant_name(blinded)).order_by("-pk").first()
    return job


def is_stale(job: Job, current_state: str) -> bool:
    """Return whether the study has changed since this archive was built."""
    # The archive may show a later state than the one it was requested for. Archives before version 3 do not
    # record which state they show.
    return job.status == "done" and job.result.get("state", job.params["state"]) != current_state


def compute_state(study: Study) -> str:
    """Return a digest of everything an archive depends on: ratings, log (without exports), last audit, raters, stop rule."""
    # without exports: an export must not make the archive it logs stale
    last_event = study.events.exclude(kind="exported").order_by("-pk").values_list("pk", flat=True).first()
    last_audit = study.audits.values_list("pk", flat=True).first()
    rater_rows = list(study.raters.order_by("pk").values_list("pk", *_RATER_FIELDS))
    digest, is_met = progress.compute_state_digest(study), progress.evaluate_stop_rule(study).met
    return hash_text(repr([ARCHIVE_VERSION, store.VERSION, digest, last_event, last_audit, rater_rows, is_met]))


# columns of raters.csv that can change without an event or a rating
_RATER_FIELDS = ("consented_at", "practised_at", "started_at", "finished_at", "withdrawn_at", "dropped", "guide_seen")
