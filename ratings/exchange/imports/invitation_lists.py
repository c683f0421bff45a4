"""Read lists of people to invite: CSV tables with the columns `name` and `email`. Every problem has its line and column."""

import io
from typing import BinaryIO, NamedTuple

from ratings.exchange import rating_tables
from ratings.exchange.imports import json_lines
from ratings.raters.mailings import MAX_INVITED, Invitee
from wetbench_site.validation import Problem

# The names that a column may have, by the field that it fills.
COLUMN_NAMES = {
    "email": ("email", "e-mail", "e_mail", "mail", "email_address", "e-mail_address"),
    "name": ("name", "label", "full_name"),
}
MAX_BYTES = 1 << 20  # of a list, which is read as a whole
_MAX_ROW_LENGTH = 64 * 1024


class InvitationList(NamedTuple):
    """The people of a list in their order, and the problems of the table."""

    invitees: list[Invitee]
    problems: list[Problem]


def parse_list_file(stream: BinaryIO) -> InvitationList:
    """Parse an uploaded file. It is UTF-8, with or without a byte order mark."""
    raw = stream.read(MAX_BYTES + 1)
    try:
        if len(raw) > MAX_BYTES:
            raise json_lines.FileError(f"larger than {MAX_BYTES // 1024**2} MiB")
        json_lines.check_is_text(raw)
        return parse_list(raw.decode("utf-8-sig"))
    except json_lines.FileError as error:
        return InvitationList([], [Problem(0, "", str(error))])
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        return InvitationList([], [Problem(line, "", "not UTF-8; save the table as CSV UTF-8")])


def parse_list(text: str) -> InvitationList:
    """Parse a table whose first line names the columns. Cells may be separated by commas, semicolons or tabs."""
    invitees: list[Invitee] = []
    problems: list[Problem] = []
    try:
        rows = rating_tables.iter_rows(io.StringIO(text, newline=""), _MAX_ROW_LENGTH)
        number, header = next(rows, (0, []))
        columns = _find_columns(number, header)
        for line, row in rows:
            if len(row) > len(header):
                problems.append(Problem(line, "", f"has {len(row)} cells, the first line {len(header)}"))
                continue
            cells = {field: row[index] if index < len(row) else "" for field, index in columns.items()}
            # Blanks at the ends and line breaks in a cell come from spreadsheets.
            email, name = (
                " ".join(rating_tables.restore_cell(cells.get(field, "")).split()) for field in ("email", "name")
            )
            invitees.append(Invitee(line, email, rating_tables.normalise_unicode(name)))
    except rating_tables.TableError as error:
        problems.append(error.problem)
    if not invitees and not problems:
        problems.append(Problem(0, "", "the table has no rows below the first line"))
    if len(invitees) > MAX_INVITED:
        problems.append(Problem(0, "", f"{len(invitees)} rows; the maximum is {MAX_INVITED} at a time"))
    return InvitationList(invitees, problems)


def _find_columns(number: int, header: list[str]) -> dict[str, int]:
    """Return the position of each known column. Raises TableError if none is there, or one twice."""
    if not number:
        raise rating_tables.TableError(0, "the table is empty")
    names = [rating_tables.normalise_column(cell) for cell in header]
    columns: dict[str, int] = {}
    for field, known in COLUMN_NAMES.items():
        positions = [index for index, name in enumerate(names) if name in known]
        if len(positions) > 1:
            raise rating_tables.TableError(number, "appears twice in the first line", names[positions[1]])
        if positions:
            columns[field] = positions[0]
    if not columns:
        shown = ", ".join(map(rating_tables.format_quoted, header[:5]))
        message = f"the first line must name the columns: name, email (at least one of them). It is: {shown}"
        raise rating_tables.TableError(number, message)
    return columns
