"""Asking for an archive: whoever asks for the same state of a study in the same variant gets the same file."""

import hashlib
from typing import Final, Literal

from django.contrib.auth.models import User

from ratings.models import Study
from ratings.models.study_events import ArchiveExported
from ratings.results.analyses import form
from ratings.studies import SealedError, StudyError, job_access, lifecycle
from ratings.studies.progress import state_digest, stopping
from simulation.jobs import job_files, jobs
from simulation.models import Job

KIND: Final = "export"
BLINDED: Final = "blinded"
WITH_SOURCES: Final = "with sources"
VERSION = 4  # raised with every change of what an archive holds


def refuse(study: Study, blinded: bool) -> None:
    """StudyError for a draft; SealedError where sources are asked for before the study is unblinded."""
    if study.is_draft:
        raise StudyError(f"{study.name} is a draft: there is nothing to export before it is opened.")
    if not (blinded or study.is_unblinded):
        raise SealedError(f"{study.name} is {study.status}; where its items came from is sealed until it is unblinded")


def ask(study: Study, blinded: bool, by: User) -> Job:
    """The job that makes this archive, or the one that made it of the same state. What is handed out is logged."""
    refuse(study, blinded)
    params = {"study": str(study.code), "variant": variant(blinded), "state": state(study)}
    job = jobs.request(KIND, params, subject=job_access.subject(study), by=by, reuse=True)
    if job.status == "done":  # made for somebody before: this one is given it as well
        made = job_files.whole(job)
        log(study, blinded, by, made[0].sha256 if made else "")
    return job


def log(study: Study, blinded: bool, by: User | None, sha256: str, of: Literal["zip", "SHA256SUMS"] = "zip") -> None:
    """Add an event to the study's log for each archive that is handed out."""
    lifecycle.log(study, ArchiveExported(blinded=blinded, sha256=sha256, of=of), by)


def taken(study: Study, job: Job, by: User, sha256: str) -> None:
    """Whoever takes an archive that another asked for is logged as well; one who has a line of it already, not again."""
    if not study.events.filter(kind="exported", by=by, data__sha256=sha256).exists():
        log(study, job.params["variant"] == BLINDED, by, sha256)


def variant(blinded: bool) -> str:
    """What the two archives are called."""
    return BLINDED if blinded else WITH_SOURCES


def last(study: Study, blinded: bool) -> Job | None:
    """The last one that was asked for in this variant."""
    own = Job.objects.filter(kind=KIND, subject=job_access.subject(study), created_at__gte=study.created_at)
    found: Job | None = own.filter(params__variant=variant(blinded)).order_by("-pk").first()
    return found


def is_stale(job: Job, now: str) -> bool:
    """Whether the study has changed since this archive was made: it is of the state it settled on, not of the one asked for.

    Results of before version 3 do not say which that was.
    """
    return job.status == "done" and job.result.get("state", job.params["state"]) != now


def state(study: Study) -> str:
    """What an archive depends on: ratings, the log but for exports, the last audit, whether the stop rule is met."""
    events = study.events.exclude(kind="exported").order_by("-pk").values_list("pk", flat=True).first()
    audit = study.audits.values_list("pk", flat=True).first()
    seats = list(study.raters.order_by("pk").values_list("pk", *_OF_SEATS))
    seen = [VERSION, form.VERSION, state_digest.mark(study), events, audit, seats, stopping.look(study).met]
    return hashlib.sha256(repr(seen).encode()).hexdigest()


_OF_SEATS = ("consented_at", "practised_at", "started_at", "finished_at", "withdrawn_at", "dropped", "guide_seen")
