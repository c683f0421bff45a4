"""Files of the stored analysis: the document, its tables, figures in four forms, reader studies, tables for LaTeX.

Only workers and commands import this module: it draws.
"""

from collections.abc import Iterator, Mapping
from functools import cache, partial
from typing import Any

from ratings.exchange.archive import entries, fields, imrmc, latex
from ratings.exchange.archive.entries import Entry
from ratings.exchange.archive.fields import Field
from ratings.results.analyses import form
from ratings.results.analyses.tables import FORMS
from ratings.results.drawings import standalone
from ratings.results.figures import render
from ratings.results.figures.registry import FIGURES, for_print
from ratings.stats import Ratings

Json = Mapping[str, Any]
# Figures that are drawn from a second table.
_BESIDES: Mapping[str, tuple[str, ...]] = {"violins": ("confidence",), "roc": ("detection",)}


def of(made: Json, judged: Ratings, conditions: Mapping[str, int], names: tuple[str, str]) -> Iterator[Entry]:
    """Everything by source: `made` is the analysis document, `judged` the ratings it is of.

    `conditions`: of each item of a crossover study, 1 or 2; empty for other studies. `names`: what the two are called.
    """
    says = "The whole analysis as one JSON document, byte for byte as the study's page has it."
    yield Entry("results.json", says, lambda: [form.canonical(made)])
    for name in FORMS:
        yield _table(f"tables/{name}.csv", made["tables"][name])
    yield from _figures(made)
    for at, source in enumerate(judged.error_sources, 1):
        yield _reader_study(f"imrmc/{at:02}-{_slug(source)}.imrmc", judged, source)
    if conditions and (judged.reference == 0).any():
        yield _two_conditions(judged, conditions, names)
    for name, written in latex.tables(made).items():
        caption = (
            f"{made['tables'][latex.OF[name]]['title']}, as a LaTeX table; it needs \\usepackage{{booktabs}} alone."
        )
        yield entries.text(f"latex/{name}.tex", caption, written)


def _table(name: str, table: Json, prefix: str = "") -> Entry:
    columns = [Field(one["name"], fields.OF_RESULTS[one["kind"]], one["meaning"]) for one in table["columns"]]
    return entries.table(name, f"{prefix}{table['title']}.", columns, lambda: table["rows"], exact=True)


def _figures(made: Json) -> Iterator[Entry]:
    """Each figure that has data: SVG, PDF and PNG of the same drawing, and the tables it is drawn from."""
    for figure in FIGURES.values():
        if "study" not in figure.kinds or not figure.has_data(made):
            continue
        draw = cache(partial(for_print, made, figure.name))  # one drawing for its three forms
        says = f"{figure.title}. {figure.summary(made)}"
        yield Entry(f"figures/{figure.name}.svg", says, partial(_svg, draw))
        yield Entry(f"figures/{figure.name}.pdf", f"{figure.title}, for print.", partial(_drawn, draw, render.pdf))
        yield Entry(f"figures/{figure.name}.png", f"{figure.title}, 300 ppi.", partial(_drawn, draw, render.png))
        yield _table(f"figures/{figure.name}.csv", made["tables"][figure.table], "What the figure shows: ")
        for also in _BESIDES.get(figure.name, ()):
            yield _table(f"figures/{figure.name}_{also}.csv", made["tables"][also], "What the figure shows besides: ")


def _svg(draw: Any) -> list[str]:
    return [standalone(draw())]


def _drawn(draw: Any, form: Any) -> list[bytes]:
    return [form(draw())]


def _reader_study(name: str, judged: Ratings, source: str) -> Entry:
    says = (
        f"Signed ratings of {source} against all unperturbed items, after the file format of FDA's program iMRMC; "
        "read back by our own reader, not run in that program."
    )
    return Entry(name, says, lambda: imrmc.write(judged, source))


def _two_conditions(judged: Ratings, conditions: Mapping[str, int], names: tuple[str, str]) -> Entry:
    says = (
        f"Signed ratings of both conditions, each a modality (condition 1: {names[0]}; condition 2: {names[1]}), "
        "after the file format of FDA's program iMRMC; read back by our own reader, not run in that program."
    )
    return Entry("imrmc/conditions.imrmc", says, lambda: imrmc.write_conditions(judged, conditions))


def _slug(source: str) -> str:
    """A source's name as a file can be called anywhere."""
    kept = "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in source.lower())
    return "-".join(filter(None, kept.split("-")))[:60] or "source"
