"""Cells of our CSV files: harmless in a spreadsheet, and back from an import as they were written."""

import csv
import io
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.conf import settings
from hypothesis import example, given
from hypothesis import strategies as st

from ratings import exports, rating_table
from ratings.stats.cells import as_written, plain

# Whatever a database of ours can hold: no lone surrogate.
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
    return "".join(exports.table_lines([f"c{n}" for n in range(len(cells))], [cells]))


def read(text: str) -> list[str]:
    return [as_written(cell) for cell in list(csv.reader(io.StringIO(text, newline=""), strict=True))[1]]


@given(st.lists(TEXTS, min_size=1, max_size=4))
@example(["'", "''", "'=1", "'''=1", '"', '";"', "\r\n", "\r", "\0", "", " '"])
def test_any_text_comes_back_from_an_import_as_it_was_exported(texts: list[str]) -> None:
    assert read(written(*texts)) == texts


@pytest.mark.parametrize("text", [*RISKY, *(blank + "=1" for blank in SKIPPED)])
def test_what_a_spreadsheet_would_take_for_a_formula_begins_with_an_apostrophe(text: str) -> None:
    assert plain(text) == f"'{text}" and as_written(plain(text)) == text


@pytest.mark.parametrize("text", ["", "a=1", "1", "3 mL", "É", "(1)", "MAT-A1B2C3D4", "µL = 5", '"'])
def test_other_text_stays_as_it_is(text: str) -> None:
    assert plain(text) == text == as_written(text)


def test_every_cell_is_quoted_and_a_number_is_never_taken_for_a_formula() -> None:
    line = written(-1, -0.25, None, True, "-1", ["=x"]).splitlines()[1]
    assert line == '"-1","-0.250","","1","\'-1","[""=x""]"'


@given(note=st.text(st.characters(exclude_categories=["Cs", "Cc", "Cf", "Zl", "Zp"]), max_size=60))
def test_a_note_comes_back_through_the_import_of_ratings(note: str) -> None:
    columns = ("item", "rater", "verdict", "confidence", "note")
    file = "".join(exports.table_lines(columns, [("i-1", "R01", True, 5, note)]))
    table = rating_table.read(io.BytesIO(file.encode()), datetime(2026, 3, 1, tzinfo=UTC))
    assert table.problems == [] and [row.note for row in table.rows] == [note]


def test_there_is_one_writer_of_csv() -> None:
    # The other line is typed in a shell: what `agreement` advises to say after --categories.
    rooms = [
        path
        for room in ("ratings", "simulation", "wetbench_site")
        for path in Path(settings.BASE_DIR, room).rglob("*.py")
    ]
    found = {
        path.name for path in rooms if re.search(r"csv\.(writer|DictWriter)|to_csv", path.read_text(encoding="utf-8"))
    }
    assert found == {"exports.py", "long_csv.py"}
