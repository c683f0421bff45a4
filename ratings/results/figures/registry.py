"""Every figure by name, with the functions that draw and describe it. It imports the plotting libraries; pages import `names` instead."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from altair.utils.schemapi import debug_mode

from ratings.results.figures import (
    benchmarks,
    comparisons,
    confidence,
    curves,
    expected_precision,
    grids,
    rates,
    render,
    tables,
    theme,
)
from ratings.results.figures.names import NAMES, ExtraNote
from ratings.results.figures.tables import Document
from ratings.results.figures.theme import AnyChart, FigureSize, Spec

DrawFunction = Callable[[Document, FigureSize], AnyChart]
DescribeFunction = Callable[[Document], str]


class FigureFunctions(NamedTuple):
    """The functions that draw and describe a figure, and whether a document with rows has numbers for it."""

    draw: DrawFunction
    summary: DescribeFunction
    has_values: Callable[[Document], bool] = lambda document: True


class Figure(NamedTuple):
    """A figure by its name (see names.FigureInfo) with its functions."""

    name: str
    title: str
    table: str
    kinds: frozenset[str]
    note: str
    extras: tuple[ExtraNote, ...]
    drawer: FigureFunctions

    def has_data(self, document: Document) -> bool:
        """Return whether there is anything to draw: rows and, where required, known numbers."""
        return bool(tables.get_rows(document, self.table)) and self.drawer.has_values(document)

    def describe(self, document: Document) -> str:
        """Return the figure in one sentence, with its numbers."""
        return self.drawer.summary(document)

    def draw_chart(self, document: Document, profile: FigureSize) -> AnyChart:
        return self.drawer.draw(document, profile)

    def build_spec(self, document: Document, profile: str) -> Spec:
        """Return the Vega-Lite specification. Raises KeyError for an unknown size."""
        size = theme.FIGURE_SIZES[profile]
        # Altair would validate every row of data; the tests validate each figure instead.
        with debug_mode(False):  # only while the specification is built, since the setting is global
            title, note = NAMES[self.name].get_title(document), NAMES[self.name].get_note(document)
            return theme.finish_chart(self.draw_chart(document, size), size, title, note, self.describe(document))


class RenderedFigure(NamedTuple):
    """One figure for the screen: sanitised SVG, and its description in one sentence."""

    name: str
    profile: str
    svg: str
    summary: str


def _make_grouped(name: str) -> FigureFunctions:
    return FigureFunctions(partial(rates.draw_grouped, name=name), partial(rates.describe_grouped, name=name))


def _make_pairs(name: str) -> FigureFunctions:
    return FigureFunctions(partial(grids.draw_pairs, name=name), partial(grids.describe_pairs, name=name))


_DRAWERS: Mapping[str, FigureFunctions] = {
    "rates": FigureFunctions(rates.draw_by_source, rates.describe_by_source),
    "confidence": FigureFunctions(
        confidence.draw_histograms, confidence.describe_histograms, confidence.has_confidence
    ),
    "violins": FigureFunctions(confidence.draw_violins, confidence.describe_violins, confidence.has_confidence),
    "roc": FigureFunctions(curves.draw_roc, curves.describe_roc),
    "localisation": FigureFunctions(rates.draw_localisation, rates.describe_localisation, rates.has_localisation),
    "agreement": FigureFunctions(comparisons.draw_agreement, comparisons.describe_agreement, comparisons.has_agreement),
    "misses": FigureFunctions(comparisons.draw_misses, comparisons.describe_misses),
    "contrasts": FigureFunctions(comparisons.draw_contrasts, comparisons.describe_contrasts, comparisons.has_contrasts),
    "rates_by_experiment": _make_grouped("rates_by_experiment"),
    "rates_by_action": _make_grouped("rates_by_action"),
    "rates_by_error_kind": _make_grouped("rates_by_error_kind"),
    "drift": FigureFunctions(curves.draw_drift, curves.describe_drift, curves.has_drift),
    "matrix": FigureFunctions(grids.draw_matrix, grids.describe_matrix),
    "human_model": FigureFunctions(
        comparisons.draw_human_model, comparisons.describe_human_model, comparisons.has_human_model
    ),
    "agreement_matrix": _make_pairs("agreement_matrix"),
    "conditional_matrix": _make_pairs("conditional_matrix"),
    "fractions": FigureFunctions(comparisons.draw_fractions, comparisons.describe_fractions),
    "pass_at_k": FigureFunctions(curves.draw_pass_at_k, curves.describe_pass_at_k),
    "failures": FigureFunctions(benchmarks.draw_failures, benchmarks.describe_failures),
    "cost": FigureFunctions(benchmarks.draw_cost, benchmarks.describe_cost, benchmarks.has_cost),
    "precision": FigureFunctions(expected_precision.draw_precision, expected_precision.describe_precision),
}

# The positional arguments follow the fields, so a field that is added in one place only fails at import.
FIGURES: Mapping[str, Figure] = {name: Figure(*named, _DRAWERS[name]) for name, named in NAMES.items()}
SCREEN_SIZES = ("wide", "narrow")  # print sizes are rendered on request


def render_all(document: Document) -> Iterator[RenderedFigure]:
    """Yield every figure that the document has data for, wide and narrow, in the order of FIGURES."""
    for figure in FIGURES.values():
        if figure.has_data(document):
            for profile in SCREEN_SIZES:
                spec = figure.build_spec(document, profile)
                yield RenderedFigure(figure.name, profile, render.render_svg(spec), str(spec["description"]))


def render_for_print(document: Document, name: str) -> str:
    """Return one figure in print size as SVG, for render.to_pdf and render.to_png."""
    return render.render_svg(FIGURES[name].build_spec(document, "print"))
