"""Large files of items and ratings, checked and imported by a worker in two steps, as small ones are by a page.

The first job parses the file and reports its content; nothing is written. The second, requested by a person who saw
that report, parses the same stored file and imports all of it or nothing.
"""

from collections.abc import Mapping
from typing import Any, BinaryIO, NamedTuple, Protocol
from uuid import UUID

from django.contrib.auth.models import User
from django.urls import reverse

from ratings.exchange.imports import item_imports, rating_imports
from ratings.exchange.imports.import_lines import Problem
from ratings.exchange.imports.item_imports import ImportRefused
from ratings.models import Study
from ratings.models.study_events import ImportsRemoved
from ratings.protocol import PlanError
from ratings.studies import StudyError, job_access
from simulation.jobs import Outcome, Work, job_files, jobs
from simulation.jobs.jobs import Upload
from simulation.models import Job

LARGE = 2_000  # lines; smaller files are checked within the request
SHOWN = 200  # on a page
ITEMS, RATINGS = "import_items", "import_ratings"  # kinds of job, also the names of their URLs
_FILE = "upload"
Checked = item_imports.Checked | rating_imports.Checked


class _Importing(Protocol):
    """The functions that the modules `item_imports` and `rating_imports` share."""

    def check(self, study: Study, stream: BinaryIO) -> Any: ...
    def read_for(self, study: Study, stream: BinaryIO) -> Any: ...
    def write(self, study: Study, read: Any, by: User | None = None) -> Any: ...


class Told(NamedTuple):
    """The result of a check, as a page shows it."""

    summary: Mapping[str, Any]
    problems: list[Problem]  # the first ones only; `n_problems` counts all
    n_problems: int


def large(stream: BinaryIO) -> bool:
    """Return whether the file has so many lines that a worker should parse it."""
    stream.seek(0)
    n_lines = 0
    while n_lines < LARGE and (piece := stream.read(1 << 16)):
        n_lines += piece.count(b"\n")
    stream.seek(0)
    return n_lines >= LARGE


def check(kind: str, study: Study, stream: BinaryIO, name: str, by: User) -> Job:
    """Return the job that checks a large file."""
    params = {"study": study.pk, "do": "check", "name": name}
    upload = Upload(_FILE, "application/octet-stream", stream)
    return jobs.request(kind, params, subject=job_access.subject(study), by=by, files=[upload])


def take(checked: Job, study: Study, by: User) -> Job:
    """Return the job that imports a checked file. Raises KeyError if the file is no longer stored."""
    # A second request for the same file returns the same job (`reuse`). The number of removals is part of the
    # parameters, so that items that were removed again can be imported again.
    params = {**checked.params, "do": "take", "checked": str(checked.code), "removals": _removals(study)}
    upload = Upload(_FILE, "application/octet-stream", job_files.opened(checked, _FILE))
    return jobs.request(checked.kind, params, subject=job_access.subject(study), by=by, files=[upload], reuse=True)


def find(kind: str, study: Study, code: UUID) -> Job | None:
    """Return the import job of that kind into this study, or None."""
    job: Job | None = Job.objects.filter(code=code, kind=kind, params__study=study.pk).first()
    return job


def told(job: Job) -> Told | None:
    """Return the result of a check, or None if the job is unfinished, has failed or is not a check."""
    if job.status != "done" or job.params["do"] != "check":
        return None
    problems = [Problem(*problem) for problem in job.result["problems"]]
    return Told(job.result["summary"], problems, job.result["n_problems"])


def summary(checked: Checked) -> dict[str, Any]:
    """Return what a file contains, for a page."""
    if isinstance(checked, item_imports.Checked):
        details = {
            "located": checked.located,
            "plain": checked.plain,
            "held": checked.held,
            "held_lines": [list(line) for line in checked.held_lines[:SHOWN]],
        }
        return {"n": len(checked.items), "sources": checked.sources, **details}
    raters = {"new_raters": checked.new_raters, "known_raters": checked.known_raters}
    counts = {"cannot_judge": checked.cannot_judge, "left_out": checked.left_out, "nameless": checked.nameless}
    return {"n": len(checked.rows), "items": checked.items, **counts, **raters}


def counted(kind: str, count: int) -> str:
    """Return "1 item", "2 ratings"."""
    return f"{count:,} {'item' if kind == ITEMS else 'rating'}{'s' * (count != 1)}"


@jobs.handles(ITEMS)
def _items(work: Work) -> Outcome:
    return _do(work, item_imports)


@jobs.handles(RATINGS)
def _ratings(work: Work) -> Outcome:
    return _do(work, rating_imports)


def _removals(study: Study) -> int:
    """Return how often all imported items have been removed."""
    return study.events.filter(kind=ImportsRemoved.kind, data__has_key="removed").count()


def _do(work: Work, importing: _Importing) -> Outcome:
    study = Study.objects.filter(pk=work.params["study"]).first()
    if study is None:
        raise jobs.Failed("The study no longer exists.")
    try:
        with work.input(_FILE) as stream:
            if work.params["do"] == "check":
                return _checked(work.job, study, importing.check(study, stream))
            parsed = importing.read_for(study, stream)
        # store_import runs in the transaction that ends the job: a second worker cannot import the file again
        return work.finish(lambda: _taken(work.job, study, importing.write(study, parsed, work.job.asked_by)))
    except ImportRefused as refusal:
        problems = refusal.problems
        raise jobs.Failed(
            f"{problems[0]}. Problems in total: {len(problems)}. Nothing was imported. Check the file again."
        ) from refusal
    except (StudyError, PlanError) as error:
        raise jobs.Failed(f"{error}.") from error


def _checked(job: Job, study: Study, checked: Checked) -> Outcome:
    contents = summary(checked)
    n_problems = len(checked.problems)
    finding = (
        f"{n_problems:,} problem{'s' * (n_problems != 1)}"
        if n_problems
        else f"{counted(job.kind, contents['n'])}, no problems"
    )
    return {
        "said": f"{finding}. Nothing is imported yet.",
        "href": f"{reverse(f'ratings:{job.kind}', args=[study.slug])}?job={job.code}",
        "label": "Show the problems" if n_problems else "Review the file and import it",
        "summary": {name: list(value) if isinstance(value, tuple) else value for name, value in contents.items()},
        "problems": [list(problem) for problem in checked.problems[:SHOWN]],
        "n_problems": n_problems,
    }


def _taken(job: Job, study: Study, checked: Checked) -> Outcome:
    page_url = reverse(f"ratings:{job.kind}", args=[study.slug])
    return {
        "said": f"{counted(job.kind, summary(checked)['n'])} imported.",
        "href": page_url,
        "label": "Show all imports",
    }
