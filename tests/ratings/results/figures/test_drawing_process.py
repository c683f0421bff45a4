"""Figures drawn in a process of their own."""

import pytest

from ratings.results.figures import drawing_process, render
from tests.ratings.results.figures import documents


def test_figures_drawn_in_a_process_are_those_drawn_here() -> None:
    document = documents.study()
    document["tables"] = {name: table for name, table in document["tables"].items() if name == "rates"}
    expected = list(render.render_all(document))
    assert [figure.profile for figure in expected] == ["wide", "narrow"]
    assert list(drawing_process.draw_all(document)) == expected


def test_failed_drawing_process_is_reported_after_the_figures_it_drew() -> None:
    with pytest.raises(RuntimeError, match="ended with exit code 1"):
        list(drawing_process.draw_all({"tables": "not a table"}))
