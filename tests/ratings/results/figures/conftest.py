"""Every figure of hostile documents for both screen sizes, and one of each form for print, drawn once."""

from collections.abc import Mapping
from xml.etree import ElementTree

import pytest

from ratings.results.figures import registry, render, theme
from tests.ratings.results.figures import documents

SvgByFigure = Mapping[tuple[str, str], str]
PRINT_FIGURES = ("rates", "confidence", "roc", "matrix", "agreement_matrix", "failures")
HOSTILE = (documents.study(documents.HOSTILE), documents.benchmark(documents.HOSTILE))


@pytest.fixture(scope="session")
def drawn() -> SvgByFigure:
    """SVG by figure and figure size."""
    return {
        (figure.name, profile): render.render_svg(figure.build_spec(document, profile))
        for document in HOSTILE
        for figure in registry.FIGURES.values()
        if figure.has_data(document)
        for profile in theme.FIGURE_SIZES
        if profile != "print" or figure.name in PRINT_FIGURES
    }


@pytest.fixture(scope="session")
def trees(drawn: SvgByFigure) -> Mapping[tuple[str, str], ElementTree.Element]:
    return {key: ElementTree.fromstring(svg) for key, svg in drawn.items()}
