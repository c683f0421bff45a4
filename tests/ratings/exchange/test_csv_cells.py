"""Cells of exported CSV files: safe in a spreadsheet, and restored unchanged by an import."""

import ast
import csv
import io
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from uuid import UUID

import pytest
from django.conf import settings
from django.utils.safestring import SafeString
from hypothesis import example, given
from hypothesis import strategies as st

from ratings.exchange import exports
from ratings.exchange.imports import rating_imports
from ratings.exchange.rating_tables import escape_cell, restore_cell

ROOT = Path(settings.BASE_DIR)
# Any text that the database can store: no lone surrogates.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
RISKY = (
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "|calc",
    "\t=1",
    "\r=1",
    "\n=1",
    "\0=1",
    "'quoted",
    "＝1+1",
    "＋1",
    "－1",
    "＠x",
    "｜x",
)
SKIPPED = (" ", "   ", "\u00a0", "\u3000", "\u200b", "\ufeff", "\u2060", "\u202e", "\x0b", "\x1f", "\u2028")


def written(*cells: object) -> str:
    return "".join(exports.format_table_lines([f"c{n}" for n in range(len(cells))], [cells]))


def read(text: str) -> list[str]:
    return [restore_cell(cell) for cell in list(csv.reader(io.StringIO(text, newline=""), strict=True))[1]]


@given(st.lists(TEXTS, min_size=1, max_size=4))
@example(["'", "''", "'=1", "'''=1", '"', '";"', "\r\n", "\r", "\0", "", " '"])
def test_csv_cell_round_trip_preserves_any_text(texts: list[str]) -> None:
    assert read(written(*texts)) == texts


@pytest.mark.parametrize("text", [*RISKY, *(blank + "=1" for blank in SKIPPED)])
def test_csv_cell_that_could_be_a_formula_gets_an_apostrophe(text: str) -> None:
    assert escape_cell(text) == f"'{text}" and restore_cell(escape_cell(text)) == text


@pytest.mark.parametrize("text", ["", "a=1", "1", "3 mL", "É", "(1)", "MAT-A1B2C3D4", "µL = 5", '"'])
def test_csv_cell_with_harmless_text_is_unchanged(text: str) -> None:
    assert escape_cell(text) == text == restore_cell(text)


def test_csv_cell_keeps_an_apostrophe_of_the_text() -> None:
    assert [restore_cell(text) for text in ("'twas", "'", "'a=1", "")] == ["'twas", "'", "'a=1", ""]


class Word(StrEnum):
    SUM = "=SUM(A1)"


def test_csv_column_names_and_str_subclasses_are_escaped() -> None:
    lines = list(
        exports.format_table_lines(["=a", "b"], [(Word.SUM, SafeString("@x")), (UUID(int=0), -1.5)], exact=True)
    )
    assert lines == ['"\'=a","b"\r\n', '"\'=SUM(A1)","\'@x"\r\n', f'"{UUID(int=0)}","-1.5"\r\n']


def test_csv_cells_are_quoted_and_negative_numbers_are_not_escaped_as_formulas() -> None:
    line = written(-1, -0.25, None, True, "-1", ["=x"]).splitlines()[1]
    assert line == '"-1","-0.250","","1","\'-1","[""=x""]"'


@given(note=st.text(st.characters(exclude_categories=["Cs", "Cc", "Cf", "Zl", "Zp"]), max_size=60))
def test_csv_note_survives_export_and_import(note: str) -> None:
    columns = ("item", "rater", "verdict", "confidence", "note")
    file = "".join(exports.format_table_lines(columns, [("i-1", "R01", True, 5, note)]))
    table = rating_imports.parse_ratings_csv(io.BytesIO(file.encode()), datetime(2026, 3, 1, tzinfo=UTC))
    assert table.problems == [] and [row.note for row in table.rows] == [note]


WRITERS = {"ratings/exchange/exports.py", "ratings/exchange/long_tables.py"}


def test_csv_is_written_in_one_module_only() -> None:
    # long_csv is the exception: it formats the option --categories that `agreement` advises to type in a shell.
    rooms = [path for room in ("ratings", "simulation", "wetbench_site") for path in (ROOT / room).rglob("*.py")]
    found = {str(path.relative_to(ROOT)) for path in rooms if writes_tables(path.read_text(encoding="utf-8"))}
    assert found == WRITERS


@pytest.mark.parametrize(
    "line", ["csv.writer(a)", "csv.DictWriter(a)", "from csv import writer", "import csv as c", "a.to_csv()"]
)
def test_csv_writer_search_detects_other_writers(line: str) -> None:
    assert writes_tables(line)


def writes_tables(text: str) -> bool:
    """Return whether the module uses a CSV writer under any name."""
    wanted = {"writer", "DictWriter", "to_csv"}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module == "csv" and wanted & {one.name for one in node.names}:
            return True
        if isinstance(node, ast.Import) and any(one.name == "csv" and one.asname for one in node.names):
            return True
        if isinstance(node, ast.Attribute) and node.attr in wanted:
            return True
    return False
