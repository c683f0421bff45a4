"""Large files of items and ratings, checked and taken in by a worker: like a small one's, in two steps.

The first job reads the file and says what it holds; nothing is written. The second, asked for by a person who was
shown that, reads the same stored file and imports all of it or nothing.
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

LARGE = 2_000  # lines; fewer are read while the page waits
SHOWN = 200  # problems told on a page
ITEMS, RATINGS = "import_items", "import_ratings"  # kinds of job, and names of their pages
_FILE = "upload"
Checked = item_imports.Checked | rating_imports.Checked


class _Importing(Protocol):
    """What `imports` and `rating_imports` both do."""

    def check(self, study: Study, stream: BinaryIO) -> Any: ...
    def read_for(self, study: Study, stream: BinaryIO) -> Any: ...
    def write(self, study: Study, read: Any, by: User | None = None) -> Any: ...


class Told(NamedTuple):
    """What a check found, as a page shows it."""

    summary: Mapping[str, Any]
    problems: list[Problem]  # the first of them
    n_problems: int


def large(stream: BinaryIO) -> bool:
    """Whether the file has as many lines as only a worker should read."""
    stream.seek(0)
    lines = 0
    while lines < LARGE and (piece := stream.read(1 << 16)):
        lines += piece.count(b"\n")
    stream.seek(0)
    return lines >= LARGE


def check(kind: str, study: Study, stream: BinaryIO, name: str, by: User) -> Job:
    """Have a large file checked."""
    params = {"study": study.pk, "do": "check", "name": name}
    upload = Upload(_FILE, "application/octet-stream", stream)
    return jobs.request(kind, params, subject=job_access.subject(study), by=by, files=[upload])


def take(checked: Job, study: Study, by: User) -> Job:
    """Have a file imported that was checked before, once however often it is asked. KeyError if it is not kept any more.

    What was removed since may be imported once more.
    """
    params = {**checked.params, "do": "take", "checked": str(checked.code), "removals": _removals(study)}
    upload = Upload(_FILE, "application/octet-stream", job_files.opened(checked, _FILE))
    return jobs.request(checked.kind, params, subject=job_access.subject(study), by=by, files=[upload], reuse=True)


def find(kind: str, study: Study, code: UUID) -> Job | None:
    """The import of that kind into this study."""
    found: Job | None = Job.objects.filter(code=code, kind=kind, params__study=study.pk).first()
    return found


def told(job: Job) -> Told | None:
    """What the check of a file came to; None where it is under way, failed, or the job is none."""
    if job.status != "done" or job.params["do"] != "check":
        return None
    problems = [Problem(*problem) for problem in job.result["problems"]]
    return Told(job.result["summary"], problems, job.result["n_problems"])


def summary(checked: Checked) -> dict[str, Any]:
    """What a file holds, for a page."""
    if isinstance(checked, item_imports.Checked):
        shown = {
            "located": checked.located,
            "plain": checked.plain,
            "held": checked.held,
            "held_lines": [list(line) for line in checked.held_lines[:SHOWN]],
        }
        return {"n": len(checked.items), "sources": checked.sources, **shown}
    raters = {"new_raters": checked.new_raters, "known_raters": checked.known_raters}
    counts = {"cannot_judge": checked.cannot_judge, "left_out": checked.left_out, "nameless": checked.nameless}
    return {"n": len(checked.rows), "items": checked.items, **counts, **raters}


def counted(kind: str, count: int) -> str:
    """ "1 item", "2 ratings"."""
    return f"{count:,} {'item' if kind == ITEMS else 'rating'}{'s' * (count != 1)}"


@jobs.handles(ITEMS)
def _items(work: Work) -> Outcome:
    return _do(work, item_imports)


@jobs.handles(RATINGS)
def _ratings(work: Work) -> Outcome:
    return _do(work, rating_imports)


def _removals(study: Study) -> int:
    """Return how often all imported items were removed again."""
    return study.events.filter(kind=ImportsRemoved.kind, data__has_key="removed").count()


def _do(work: Work, importing: _Importing) -> Outcome:
    study = Study.objects.filter(pk=work.params["study"]).first()
    if study is None:
        raise jobs.Failed("The study is not there any more.")
    try:
        with work.input(_FILE) as stream:
            if work.params["do"] == "check":
                return _checked(work.job, study, importing.check(study, stream))
            read = importing.read_for(study, stream)
        return work.finish(lambda: _taken(work.job, study, importing.write(study, read, work.job.asked_by)))
    except ImportRefused as refused:
        problems = refused.problems
        raise jobs.Failed(f"{problems[0]}. {len(problems)} in all; nothing was imported: check it again.") from refused
    except (StudyError, PlanError) as error:
        raise jobs.Failed(f"{error}.") from error


def _checked(job: Job, study: Study, checked: Checked) -> Outcome:
    found = summary(checked)
    wrong = len(checked.problems)
    said = f"{wrong:,} problem{'s' * (wrong != 1)}" if wrong else f"{counted(job.kind, found['n'])}, no problem"
    return {
        "said": f"{said}: nothing is imported yet.",
        "href": f"{reverse(f'ratings:{job.kind}', args=[study.slug])}?job={job.code}",
        "label": "What to correct" if wrong else "See what the file holds, and import it",
        "summary": {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()},
        "problems": [list(problem) for problem in checked.problems[:SHOWN]],
        "n_problems": wrong,
    }


def _taken(job: Job, study: Study, checked: Checked) -> Outcome:
    back = reverse(f"ratings:{job.kind}", args=[study.slug])
    return {
        "said": f"{counted(job.kind, summary(checked)['n'])} imported.",
        "href": back,
        "label": "All that was imported",
    }
