"""Draw each figure of equal data once in each process of the tests: the figures of one analysis take five seconds.

A drawing is a function of the parts of the document that it reads. They are recorded when it is drawn; a document with equal parts
gets the same drawing.
"""

import json
from collections.abc import Iterator
from typing import Any

from ratings.results.figures import render
from ratings.results.figures.drawing_process import RenderedFigure
from ratings.results.figures.registry import FIGURES
from ratings.results.figures.tables import Document

_Path = tuple[str, ...]
_DRAWN: dict[tuple[str, str], list[tuple[dict[_Path, str], RenderedFigure]]] = {}
_NESTED = ("tables", "subject", "filters")  # recorded by the names in them; other parts as a whole


class _Recorder(dict[str, Any]):
    """A mapping that records the names that are read, with the text of their values."""

    def __init__(self, values: Document, parts: dict[_Path, str], path: _Path = ()) -> None:
        super().__init__(values)
        self.parts, self.path = parts, path

    def get(self, name: str, default: Any = None) -> Any:
        if not self.path and name in _NESTED and name in self:
            return _Recorder(super().__getitem__(name), self.parts, (name,))
        value = super().get(name, default)
        self.parts[(*self.path, name)] = _write(super().get(name))
        return value

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise KeyError(name)
        return self.get(name)


def render_once(document: Document) -> Iterator[RenderedFigure]:
    """Yield what `render.render_all` yields."""
    for figure in FIGURES.values():
        if figure.has_data(document):
            for profile in render.SCREEN_SIZES:
                drawn = _DRAWN.setdefault((figure.name, profile), [])
                same = (image for parts, image in drawn if all(_read(document, p) == text for p, text in parts.items()))
                if (image := next(same, None)) is None:
                    parts: dict[_Path, str] = {}
                    spec = figure.build_spec(_Recorder(document, parts), profile)
                    image = RenderedFigure(figure.name, profile, render.render_svg(spec), str(spec["description"]))
                    drawn.append((parts, image))
                yield image


def _read(document: Document, path: _Path) -> str:
    value: Any = document
    for name in path:
        value = (value or {}).get(name)
    return _write(value)


def _write(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
