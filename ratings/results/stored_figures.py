"""Prepare stored figures for pages: the drawings of an analysis, links to their files, and requests for print versions.

This module draws nothing, so that web processes need no plotting library.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe

from ratings.models import Analysis, Benchmark, Study
from ratings.results.figures.registry import FIGURES
from ratings.results.figures.tables import Document
from simulation.jobs import jobs
from simulation.models import Job

# A function that returns the URL of a figure's file, given the figure's name and the file ending.
Links = Callable[[str, str], str]
# SVG and CSV come from the stored analysis at once; PDF and PNG are drawn by a job on request.
ENDINGS = ("svg", "pdf", "png", "csv")


class FigureFile(NamedTuple):
    """One downloadable format of a figure."""

    label: str
    url: str


class StoredFigure(NamedTuple):
    """A figure for templates/ratings/_figure.html. `wide` and `narrow` are SVG for inline use."""

    name: str
    title: str
    notes: list[str]
    summary: str
    wide: SafeString
    narrow: SafeString
    files: list[FigureFile]


def list_stored_figures(analysis: Analysis, links: Links) -> dict[str, StoredFigure]:
    """Return the figures that were drawn for an analysis, by name, in one query."""
    drawings_by_name: dict[str, dict[str, Any]] = {}
    for drawing in analysis.drawings.all():
        drawings_by_name.setdefault(drawing.name, {})[drawing.profile] = drawing
    return {
        name: _build_figure(name, analysis.document, profiles, links)
        for name, profiles in drawings_by_name.items()
        # A figure is left out if this release no longer has it, or if one of its two sizes is not stored yet.
        if name in FIGURES and profiles.keys() == {"wide", "narrow"}
    }


def study_links(study: Study, query: str = "") -> Links:
    """Return the function that builds the URLs of a study's figures. `query` holds the filters."""

    def build_url(name: str, ending: str) -> str:
        url = reverse("ratings:figure", kwargs={"slug": study.slug, "name": name, "ending": ending})
        return f"{url}?{query}" if query else url

    return build_url


def benchmark_links(benchmark: Benchmark) -> Links:
    """Return the function that builds the URLs of a benchmark's figures."""

    def build_url(name: str, ending: str) -> str:
        return reverse("ratings:benchmark_figure", kwargs={"code": benchmark.code, "name": name, "ending": ending})

    return build_url


def request_print_file(analysis: Analysis, subject: str, name: str, ending: str, file_name: str, user: Any) -> Job:
    """Return the job that draws one figure for print, or that drew it before if its file is still stored."""
    params = {"analysis": analysis.pk, "sha256": analysis.sha256, "figure": name, "ending": ending, "file": file_name}
    return jobs.request_job("figure", params, subject=subject, user=user, reuse=True)


def build_result_figure(job: Job, name: str, files: list[FigureFile]) -> StoredFigure | None:
    """Return the figure that a job has drawn as its result, or None if it drew none."""
    drawing = job.result.get("figure") or {}
    if drawing.keys() != {"wide", "narrow"}:
        return None
    # Safe to mark: render.py checked every element against an allow-list when it was drawn.
    wide, narrow = mark_safe(drawing["wide"]), mark_safe(drawing["narrow"])
    return StoredFigure(name, FIGURES[name].title, [FIGURES[name].note], job.result["summary"], wide, narrow, files)


def _build_figure(name: str, document: Document, profiles: Mapping[str, Any], links: Links) -> StoredFigure:
    figure, wide, narrow = FIGURES[name], profiles["wide"], profiles["narrow"]
    # Safe to mark: render.py checked every element against an allow-list when it was drawn.
    inline = mark_safe(wide.svg), mark_safe(narrow.svg)
    files = [FigureFile(ending.upper(), links(name, ending)) for ending in ENDINGS]
    return StoredFigure(name, figure.title, figure.list_notes(document), wide.summary, inline[0], inline[1], files)
