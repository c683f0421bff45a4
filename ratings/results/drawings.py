"""Figures as pages show them: the stored drawings of an analysis, their files, and the request for print. Draws nothing."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe

from ratings.models import Analysis, Benchmark, Study
from ratings.results.figures.names import NAMES
from ratings.results.figures.tables import Document
from simulation.jobs import jobs
from simulation.models import Job

# An address for a figure by its name and the ending of the file.
Links = Callable[[str, str], str]
ENDINGS = ("svg", "pdf", "png", "csv")


class File(NamedTuple):
    """One form of a figure to take away."""

    label: str
    url: str


class Shown(NamedTuple):
    """A figure for templates/ratings/_figure.html. `wide` and `narrow` are SVG for inline use."""

    name: str
    title: str
    note: str
    summary: str
    wide: SafeString
    narrow: SafeString
    files: list[File]


def shown(analysis: Analysis, links: Links) -> dict[str, Shown]:
    """The figures that were drawn of an analysis, by name, in one query."""
    drawn: dict[str, dict[str, Any]] = {}
    for drawing in analysis.drawings.all():
        drawn.setdefault(drawing.name, {})[drawing.profile] = drawing
    return {
        name: _shown(name, analysis.document, profiles, links)
        for name, profiles in drawn.items()
        if name in NAMES and profiles.keys() == {"wide", "narrow"}
    }


def study_links(study: Study, query: str = "") -> Links:
    """Addresses of a study's figures; `query` are the filters."""

    def link(name: str, ending: str) -> str:
        to = reverse("ratings:figure", kwargs={"slug": study.slug, "name": name, "ending": ending})
        return f"{to}?{query}" if query else to

    return link


def benchmark_links(benchmark: Benchmark) -> Links:
    """Addresses of a benchmark's figures."""

    def link(name: str, ending: str) -> str:
        return reverse("ratings:benchmark_figure", kwargs={"code": benchmark.code, "name": name, "ending": ending})

    return link


def standalone(svg: str) -> str:
    """A stored drawing as a file of its own: on paper, as it looks on a light page."""
    head, _, rest = svg.partition(">")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{head}><rect width="100%" height="100%" fill="#ffffff" />{rest}\n'


def print_job(analysis: Analysis, subject: str, stem: str, name: str, ending: str, by: Any) -> Job:
    """The job that draws one figure for print (ratings.results.figure_work), or the one that did, while its file is kept."""
    asked = {
        "analysis": analysis.pk,
        "sha256": analysis.sha256,
        "figure": name,
        "ending": ending,
        "file": f"{stem}-{name.replace('_', '-')}.{ending}",
    }
    return jobs.request("figure", asked, subject=subject, by=by, reuse=True)


def show_result(job: Job, name: str, files: list[File]) -> Shown | None:
    """Return the figure that a job has drawn as its result, or None where it has drawn none."""
    drawn = job.result.get("figure") or {}
    if drawn.keys() != {"wide", "narrow"}:
        return None
    # Cleaned by an allow-list as they were drawn (ratings.results.figures.render).
    inline = mark_safe(drawn["wide"]), mark_safe(drawn["narrow"])
    return Shown(name, NAMES[name].title, NAMES[name].note, job.result["summary"], inline[0], inline[1], files)


def _shown(name: str, document: Document, profiles: Mapping[str, Any], links: Links) -> Shown:
    figure, wide, narrow = NAMES[name], profiles["wide"], profiles["narrow"]
    # Cleaned by an allow-list as they were drawn (ratings.results.figures.render).
    inline = mark_safe(wide.svg), mark_safe(narrow.svg)
    files = [File(ending.upper(), links(name, ending)) for ending in ENDINGS]
    return Shown(name, figure.title, figure.note_of(document), wide.summary, inline[0], inline[1], files)
