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
    grids,
    planning,
    rates,
    render,
    tables,
    theme,
)
from ratings.results.figures.names import NAMES, Extra
from ratings.results.figures.tables import Document
from ratings.results.figures.theme import AnyChart, Profile, Spec

Draw = Callable[[Document, Profile], AnyChart]
Say = Callable[[Document], str]


class Drawer(NamedTuple):
    """The functions that draw and describe a figure, and whether a document with rows has numbers for it."""

    draw: Draw
    summary: Say
    known: Callable[[Document], bool] = lambda document: True


class Figure(NamedTuple):
    """A figure by its name (see names.FigureInfo) with its functions."""

    name: str
    title: str
    table: str
    kinds: frozenset[str]
    note: str
    extras: tuple[Extra, ...]
    drawer: Drawer

    def has_data(self, document: Document) -> bool:
        """Return whether there is anything to draw: rows and, where required, known numbers."""
        return bool(tables.rows(document, self.table)) and self.drawer.known(document)

    def summary(self, document: Document) -> str:
        """Return the figure in one sentence, with its numbers."""
        return self.drawer.summary(document)

    def draw(self, document: Document, profile: Profile) -> AnyChart:
        return self.drawer.draw(document, profile)

    def spec(self, document: Document, profile: str) -> Spec:
        """Return the Vega-Lite specification. Raises KeyError for an unknown size."""
        size = theme.PROFILES[profile]
        # Altair would validate every row of data; the tests validate each figure instead.
        with debug_mode(False):  # only while the specification is built, since the setting is global
            title, note = NAMES[self.name].title_of(document), NAMES[self.name].note_of(document)
            return theme.finished(self.draw(document, size), size, title, note, self.summary(document))


class Drawn(NamedTuple):
    """One figure for the screen: sanitised SVG, and its description in one sentence."""

    name: str
    profile: str
    svg: str
    summary: str


def _grouped(name: str) -> Drawer:
    return Drawer(partial(rates.grouped, name=name), partial(rates.say_grouped, name=name))


def _pairs(name: str) -> Drawer:
    return Drawer(partial(grids.pairs, name=name), partial(grids.say_pairs, name=name))


_DRAWERS: Mapping[str, Drawer] = {
    "rates": Drawer(rates.by_source, rates.say_by_source),
    "confidence": Drawer(confidence.histograms, confidence.say_histograms, confidence.known),
    "violins": Drawer(confidence.violins, confidence.say_violins, confidence.known),
    "roc": Drawer(curves.roc, curves.say_roc),
    "localisation": Drawer(rates.localisation, rates.say_localisation, rates.localisation_known),
    "agreement": Drawer(comparisons.agreement, comparisons.say_agreement, comparisons.agreement_known),
    "misses": Drawer(comparisons.misses, comparisons.say_misses),
    "contrasts": Drawer(comparisons.contrasts, comparisons.say_contrasts, comparisons.contrasts_known),
    "rates_by_experiment": _grouped("rates_by_experiment"),
    "rates_by_action": _grouped("rates_by_action"),
    "rates_by_error_kind": _grouped("rates_by_error_kind"),
    "drift": Drawer(curves.drift, curves.say_drift, curves.drift_known),
    "matrix": Drawer(grids.matrix, grids.say_matrix),
    "human_model": Drawer(comparisons.human_model, comparisons.say_human_model, comparisons.human_model_known),
    "agreement_matrix": _pairs("agreement_matrix"),
    "conditional_matrix": _pairs("conditional_matrix"),
    "fractions": Drawer(comparisons.fractions, comparisons.say_fractions),
    "pass_at_k": Drawer(curves.pass_at_k, curves.say_pass_at_k),
    "failures": Drawer(benchmarks.failures, benchmarks.say_failures),
    "cost": Drawer(benchmarks.cost, benchmarks.say_cost, benchmarks.cost_known),
    "precision": Drawer(planning.precision, planning.say_precision),
}

# The positional arguments follow the fields, so a field that is added in one place only fails at import.
FIGURES: Mapping[str, Figure] = {name: Figure(*named, _DRAWERS[name]) for name, named in NAMES.items()}
SCREEN = ("wide", "narrow")  # print sizes are rendered on request


def draw(document: Document) -> Iterator[Drawn]:
    """Yield every figure that the document has data for, wide and narrow, in the order of FIGURES."""
    for figure in FIGURES.values():
        if figure.has_data(document):
            for profile in SCREEN:
                spec = figure.spec(document, profile)
                yield Drawn(figure.name, profile, render.svg(spec), str(spec["description"]))


def for_print(document: Document, name: str) -> str:
    """Return one figure in print size as SVG, for render.to_pdf and render.to_png."""
    return render.svg(FIGURES[name].spec(document, "print"))
