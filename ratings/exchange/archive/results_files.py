"""Files from the stored analysis: the document, its tables, charts in four formats, reader studies, LaTeX tables.

Only workers and commands import this module: it draws charts.
"""

from collections.abc import Iterator, Mapping
from functools import cache, partial
from typing import Any

from ratings.exchange.archive import archive_files, fields, imrmc, latex
from ratings.exchange.archive.archive_files import ArchiveFile
from ratings.exchange.archive.fields import Field
from ratings.results.analyses import document_format
from ratings.results.analyses.tables import TABLE_SPECS
from ratings.results.figures import render
from ratings.results.figures.registry import FIGURES, render_for_print
from ratings.results.stored_figures import build_svg_file
from ratings.stats import Ratings

Json = Mapping[str, Any]
# chart -> further tables that it is drawn from
_EXTRA_TABLES: Mapping[str, tuple[str, ...]] = {"violins": ("confidence",), "roc": ("detection",)}


def iter_results_files(
    document: Json, judged: Ratings, conditions: Mapping[str, int], names: tuple[str, str]
) -> Iterator[ArchiveFile]:
    """Yield all files with results by source, from the analysis `document` and from its ratings `judged`.

    `conditions` gives the condition, 1 or 2, of each item of a crossover study; it is empty for other studies. `names`
    are the names of the two conditions.
    """
    description = "The complete analysis as one JSON document, byte for byte the one behind the results page."
    yield ArchiveFile("results.json", description, lambda: [document_format.encode_document(document)])
    for name in TABLE_SPECS:
        yield _create_results_table(f"tables/{name}.csv", document["tables"][name])
    yield from _iter_figure_files(document)
    for index, source in enumerate(judged.error_sources, 1):
        yield _create_source_study_file(f"imrmc/{index:02}-{_format_file_stem(source)}.imrmc", judged, source)
    # the format needs cases with a signal
    if conditions and (judged.reference == 0).any():
        yield _create_conditions_file(judged, conditions, names)
    for name, content in latex.format_tables(document).items():
        caption = f"{document['tables'][latex.DOCUMENT_TABLES[name]]['title']}, as a LaTeX table; needs only \\usepackage{{booktabs}}."
        yield archive_files.create_text_file(f"latex/{name}.tex", caption, content)


def _create_results_table(name: str, table: Json, prefix: str = "") -> ArchiveFile:
    table_fields = [
        Field(column["name"], fields.RESULT_KINDS[column["kind"]], column["meaning"]) for column in table["columns"]
    ]
    return archive_files.create_table_file(
        name, f"{prefix}{table['title']}.", table_fields, lambda: table["rows"], exact=True
    )


def _iter_figure_files(document: Json) -> Iterator[ArchiveFile]:
    """Yield, for each chart with data, the same drawing as SVG, PDF and PNG, and the tables it is drawn from."""
    for figure in FIGURES.values():
        if "study" not in figure.kinds or not figure.has_data(document):
            continue
        draw = cache(partial(render_for_print, document, figure.name))  # drawn once for its three formats
        description = f"{figure.title}. {figure.describe(document)}"
        yield ArchiveFile(f"figures/{figure.name}.svg", description, partial(_render_svg, draw))
        yield ArchiveFile(
            f"figures/{figure.name}.pdf",
            f"{figure.title}, for print.",
            partial(_render_print_format, draw, render.to_pdf),
        )
        yield ArchiveFile(
            f"figures/{figure.name}.png",
            f"{figure.title}, 300 ppi.",
            partial(_render_print_format, draw, render.to_png),
        )
        yield _create_results_table(
            f"figures/{figure.name}.csv", document["tables"][figure.table], "Data of the figure: "
        )
        for extra_table in _EXTRA_TABLES.get(figure.name, ()):
            yield _create_results_table(
                f"figures/{figure.name}_{extra_table}.csv",
                document["tables"][extra_table],
                "Further data of the figure: ",
            )


def _render_svg(draw: Any) -> list[str]:
    return [build_svg_file(draw())]


def _render_print_format(draw: Any, convert: Any) -> list[bytes]:
    return [convert(draw())]


def _create_source_study_file(name: str, judged: Ratings, source: str) -> ArchiveFile:
    description = (
        f"Signed ratings of {source} against all unperturbed items, in the file format of the FDA's program iMRMC; "
        "read back by WetBench's own reader, not run in that program."
    )
    return ArchiveFile(name, description, lambda: imrmc.format_source_study(judged, source))


def _create_conditions_file(judged: Ratings, conditions: Mapping[str, int], names: tuple[str, str]) -> ArchiveFile:
    description = (
        f"Signed ratings of both conditions, each a modality (condition 1: {names[0]}; condition 2: {names[1]}), "
        "in the file format of the FDA's program iMRMC; read back by WetBench's own reader, not run in that program."
    )
    return ArchiveFile("imrmc/conditions.imrmc", description, lambda: imrmc.format_condition_study(judged, conditions))


def _format_file_stem(source: str) -> str:
    """Return the source's name in a form that every system accepts in file names."""
    safe_name = "".join(
        character if character.isascii() and character.isalnum() else "-" for character in source.lower()
    )
    # Two sources can get the same stem; the number before it in the file name distinguishes them. 60 characters are
    # short enough for every file system and still readable.
    return "-".join(filter(None, safe_name.split("-")))[:60] or "source"
