"""Files from the stored analysis: the document, its tables, charts in four formats, reader studies, LaTeX tables.

Only workers and commands import this module: it draws charts.
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
# charts that are drawn from a second table
_BESIDES: Mapping[str, tuple[str, ...]] = {"violins": ("confidence",), "roc": ("detection",)}


def of(made: Json, judged: Ratings, conditions: Mapping[str, int], names: tuple[str, str]) -> Iterator[Entry]:
    """Yield all files by source from the analysis `document` and the `judged` ratings behind it.

    `conditions` gives the condition, 1 or 2, of each item of a crossover study; it is empty for other studies. `names`
    are the names of the two conditions.
    """
    description = "The complete analysis as one JSON document, byte for byte the one behind the results page."
    yield Entry("results.json", description, lambda: [form.canonical(made)])
    for name in FORMS:
        yield _table(f"tables/{name}.csv", made["tables"][name])
    yield from _figures(made)
    for index, source in enumerate(judged.error_sources, 1):
        yield _reader_study(f"imrmc/{index:02}-{_slug(source)}.imrmc", judged, source)
    # the format needs cases with a signal
    if conditions and (judged.reference == 0).any():
        yield _two_conditions(judged, conditions, names)
    for name, content in latex.tables(made).items():
        caption = f"{made['tables'][latex.OF[name]]['title']}, as a LaTeX table; needs only \\usepackage{{booktabs}}."
        yield entries.text(f"latex/{name}.tex", caption, content)


def _table(name: str, table: Json, prefix: str = "") -> Entry:
    table_fields = [
        Field(column["name"], fields.OF_RESULTS[column["kind"]], column["meaning"]) for column in table["columns"]
    ]
    return entries.table(name, f"{prefix}{table['title']}.", table_fields, lambda: table["rows"], exact=True)


def _figures(made: Json) -> Iterator[Entry]:
    """Yield for each chart with data: SVG, PDF and PNG of the same drawing, and the tables behind it."""
    for figure in FIGURES.values():
        if "study" not in figure.kinds or not figure.has_data(made):
            continue
        draw = cache(partial(for_print, made, figure.name))  # drawn once for its three formats
        description = f"{figure.title}. {figure.summary(made)}"
        yield Entry(f"figures/{figure.name}.svg", description, partial(_svg, draw))
        yield Entry(f"figures/{figure.name}.pdf", f"{figure.title}, for print.", partial(_drawn, draw, render.pdf))
        yield Entry(f"figures/{figure.name}.png", f"{figure.title}, 300 ppi.", partial(_drawn, draw, render.png))
        yield _table(f"figures/{figure.name}.csv", made["tables"][figure.table], "Data of the figure: ")
        for extra_table in _BESIDES.get(figure.name, ()):
            yield _table(
                f"figures/{figure.name}_{extra_table}.csv", made["tables"][extra_table], "Further data of the figure: "
            )


def _svg(draw: Any) -> list[str]:
    return [standalone(draw())]


def _drawn(draw: Any, form: Any) -> list[bytes]:
    return [form(draw())]


def _reader_study(name: str, judged: Ratings, source: str) -> Entry:
    description = (
        f"Signed ratings of {source} against all unperturbed items, in the file format of the FDA's program iMRMC; "
        "read back by WetBench's own reader, not run in that program."
    )
    return Entry(name, description, lambda: imrmc.write(judged, source))


def _two_conditions(judged: Ratings, conditions: Mapping[str, int], names: tuple[str, str]) -> Entry:
    description = (
        f"Signed ratings of both conditions, each a modality (condition 1: {names[0]}; condition 2: {names[1]}), "
        "in the file format of the FDA's program iMRMC; read back by WetBench's own reader, not run in that program."
    )
    return Entry("imrmc/conditions.imrmc", description, lambda: imrmc.write_conditions(judged, conditions))


def _slug(source: str) -> str:
    """Return a source's name as a file name that is valid on every system."""
    safe_name = "".join(
        character if character.isascii() and character.isalnum() else "-" for character in source.lower()
    )
    # The number before it keeps names apart that become equal here. 60 characters are short enough for every
    # file system and still readable.
    return "-".join(filter(None, safe_name.split("-")))[:60] or "source"
