"""Check and import large files of items or ratings in a worker, in the same two steps as pages use for small files.

The first job parses the file and reports its content; nothing is written. The second, requested by a person who saw
that report, parses the same stored file and imports all of it or nothing.
"""

import io
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.core import signing
from django.urls import reverse

from ratings.exchange.imports import item_imports, rating_imports
from ratings.exchange.imports.item_imports import ImportRefused
from ratings.models import Study
from ratings.models.study_events import ImportsRemoved
from ratings.protocol import PlanError
from ratings.studies import StudyError, access
from simulation.jobs import Outcome, Work, job_files, jobs
from simulation.jobs.jobs import Upload
from simulation.models import Job
from wetbench_site.text import format_count
from wetbench_site.validation import Problem

# Files with fewer lines and bytes are checked within the request.
MIN_JOB_LINES, MIN_JOB_BYTES = 2_000, 4 << 20
MAX_SHOWN_PROBLEMS = 200  # on a page
ITEMS_KIND, RATINGS_KIND = "import_items", "import_ratings"  # kinds of job, also the names of their URLs
_INPUT_NAME = "upload"
CheckedFile = item_imports.CheckedItems | rating_imports.CheckedRatings


class _Importer(Protocol):
    """The functions that both modules, `item_imports` and `rating_imports`, define."""

    def check_file(self, study: Study, stream: BinaryIO) -> Any: ...
    def parse_file(self, study: Study, stream: BinaryIO) -> Any: ...
    def store_import(self, study: Study, parsed: Any, user: User | None = None) -> Any: ...


class CheckReport(NamedTuple):
    """The result of a check, as a page shows it."""

    summary: Mapping[str, Any]
    problems: list[Problem]  # the first ones only; `n_problems` counts all
    n_problems: int


def is_large(stream: BinaryIO) -> bool:
    """Return whether the file has so many lines or bytes that a worker should parse it."""
    n_bytes = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    n_lines = 0
    while n_lines < MIN_JOB_LINES and n_bytes < MIN_JOB_BYTES and (piece := stream.read(1 << 16)):
        n_lines += piece.count(b"\n")
    stream.seek(0)
    return n_lines >= MIN_JOB_LINES or n_bytes >= MIN_JOB_BYTES


def request_check(kind: str, study: Study, stream: BinaryIO, name: str, user: User) -> Job:
    """Return a new job that checks a large file."""
    params = {"study": study.pk, "do": "check", "name": name}
    upload = Upload(_INPUT_NAME, "application/octet-stream", stream)
    return jobs.request_job(kind, params, subject=access.format_subject(study), user=user, files=[upload])


def request_import(checked: Job, study: Study, user: User) -> Job:
    """Return the job that imports a checked file. Raises KeyError if the file is no longer stored."""
    # A second request for the same file returns the same job (`reuse`). The number of removals is part of the
    # parameters, so that items that were removed again can be imported again.
    removals = study.events.filter(kind=ImportsRemoved.kind, data__has_key="removed").count()
    params = {**checked.params, "do": "take", "checked": str(checked.code), "removals": removals}
    upload = Upload(_INPUT_NAME, "application/octet-stream", job_files.open_input(checked, _INPUT_NAME))
    return jobs.request_job(
        checked.kind, params, subject=access.format_subject(study), user=user, files=[upload], reuse=True
    )


def find_import(kind: str, study: Study, code: UUID) -> Job | None:
    """Return the import job of that kind into this study, or None."""
    job: Job | None = Job.objects.filter(code=code, kind=kind, params__study=study.pk).first()
    return job


def get_check_report(job: Job) -> CheckReport | None:
    """Return the result of a check, or None if the job is unfinished, has failed or is not a check."""
    if job.status != "done" or job.params["do"] != "check":
        return None
    problems = [Problem(*problem) for problem in job.result["problems"]]
    return CheckReport(job.result["summary"], problems, job.result["n_problems"])


def summarise_file(checked: CheckedFile) -> dict[str, Any]:
    """Return a summary of the file's content for the page of the check."""
    if isinstance(checked, item_imports.CheckedItems):
        held_lines = [list(line) for line in checked.quarantine_reasons[:MAX_SHOWN_PROBLEMS]]
        details = {"located": checked.n_located, "plain": checked.n_plain, "held": checked.n_quarantined}
        sources = checked.count_by_source
        return {"n": len(checked.items), "sources": sources, **details, "held_lines": held_lines}
    raters = {"new_raters": checked.new_raters, "known_raters": checked.known_raters}
    counts = {"cannot_judge": checked.n_cannot_judge, "left_out": checked.left_out, "nameless": checked.nameless}
    return {"n": len(checked.rows), "items": checked.items, **counts, **raters}


def format_items(kind: str, count: int) -> str:
    """Return "1 item", "2 ratings"."""
    return format_count(count, "item" if kind == ITEMS_KIND else "rating")


@jobs.register_handler(ITEMS_KIND)
def _run_item_import(work: Work) -> Outcome:
    return _run_import(work, item_imports)


@jobs.register_handler(RATINGS_KIND)
def _run_rating_import(work: Work) -> Outcome:
    return _run_import(work, rating_imports)


def _run_import(work: Work, importer: _Importer) -> Outcome:
    study = Study.objects.filter(pk=work.params["study"]).first()
    if study is None:
        raise jobs.JobFailed("The study no longer exists.")
    try:
        with work.open_input(_INPUT_NAME) as stream:
            if work.params["do"] == "check":
                return _format_check_result(work.job, study, importer.check_file(study, stream))
            parsed = importer.parse_file(study, stream)

        def store() -> Outcome:
            count = summarise_file(importer.store_import(study, parsed, work.job.asked_by))["n"]
            href = reverse(f"ratings:{work.job.kind}", args=[study.slug])
            said = f"{format_items(work.job.kind, count)} imported."
            return {"said": said, "href": href, "label": "Show all imports"}

        # `store` runs in the transaction that ends the job: a second worker cannot import the file again
        return work.finish_job(store)
    except ImportRefused as refusal:
        problems = refusal.problems
        raise jobs.JobFailed(
            f"{problems[0]}. Problems in total: {len(problems)}. Nothing was imported. Check the file again."
        ) from refusal
    except (StudyError, PlanError) as error:
        raise jobs.JobFailed(f"{error}.") from error


def _format_check_result(job: Job, study: Study, checked: CheckedFile) -> Outcome:
    contents = summarise_file(checked)
    n_problems = len(checked.problems)
    finding = f"{format_items(job.kind, contents['n'])}, no problems"
    if n_problems:
        finding = format_count(n_problems, "problem")
    return {
        "said": f"{finding}. Nothing is imported yet.",
        "href": f"{reverse(f'ratings:{job.kind}', args=[study.slug])}?job={job.code}",
        "label": "Show the problems" if n_problems else "Review the file and import it",
        "summary": {name: list(value) if isinstance(value, tuple) else value for name, value in contents.items()},
        "problems": [list(problem) for problem in checked.problems[:MAX_SHOWN_PROBLEMS]],
        "n_problems": n_problems,
    }


MAX_AGE_SECONDS = 3600
_CHUNK_SIZE = 1 << 16
_SIGNING_SALT = "ratings.uploads"  # do not change it when this module moves: tokens in open pages must remain valid


class UploadGone(ValueError):  # noqa: N818  # an expected state, shown to the sender
    """The file was deleted, or it belongs to somebody else."""


def store_upload(stream: BinaryIO, owner: str) -> str:
    """Store the file and return a token with which only this owner can open it."""
    directory = _get_directory()
    _delete_old_uploads(directory)
    name = secrets.token_hex(16)
    stream.seek(0)
    with (directory / name).open("xb") as target:
        # the items of a study must not be readable for other accounts of the machine
        (directory / name).chmod(0o600)
        while chunk := stream.read(_CHUNK_SIZE):
            target.write(chunk)
    return signing.dumps([name, owner], salt=_SIGNING_SALT)


@contextmanager
def open_upload(token: str, owner: str) -> Iterator[BinaryIO]:
    """Open the file of the token. Raises UploadGone if it is too old or belongs to somebody else."""
    try:
        name, stored_owner = signing.loads(token, salt=_SIGNING_SALT, max_age=MAX_AGE_SECONDS)
        if stored_owner != owner:
            raise UploadGone
        # Entered below, so that errors of the caller are not reported as UploadGone.
        stream = (_get_directory() / name).open("rb")
    except (signing.BadSignature, OSError) as error:
        raise UploadGone from error
    with stream:
        yield stream


def delete_upload(token: str) -> None:
    with suppress(signing.BadSignature, OSError):
        name, _ = signing.loads(token, salt=_SIGNING_SALT)
        (_get_directory() / name).unlink()


def _get_directory() -> Path:
    directory = Path(settings.VAR_DIR) / "uploads"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory


def _delete_old_uploads(directory: Path) -> None:
    """Delete files that were not confirmed in time."""
    for path in directory.iterdir():
        with suppress(OSError):
            # another request may delete the same file; the suppressed error is harmless
            if time.time() - path.stat().st_mtime > MAX_AGE_SECONDS:
                path.unlink()
