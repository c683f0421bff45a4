"""Write the main tables of an analysis in LaTeX. All names are escaped; the only package needed is booktabs."""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ratings.blinding.pseudonyms import index_to_letters
from ratings.results.analyses.tables import list_records
from ratings.stats.ratings_table import WITH_ERROR, WITHOUT_ERROR

Json = Mapping[str, Any]
Record = Mapping[str, Any]

# The name of each file, and the table of the analysis document that it prints.
DOCUMENT_TABLES: Mapping[str, str] = {
    "rates": "rates", "agreement": "agreement", "detection": "detection", "table1": "human_model",
}  # fmt: skip
MISSING_CELL = "--"
_ESCAPES: Mapping[str, str] = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': "''", "[": "{[}", "]": "{]}", "`": "`",
    "*": "{*}",  # at the start of a row LaTeX would read it as the starred form of the row end before it
    "“": "``", "”": "''", "‘": "`", "’": "'", "–": "--", "—": "---", "…": r"\dots{}", "\u00a0": "~", "µ": r"$\mu$",
    "μ": r"$\mu$", "±": r"$\pm$", "×": r"$\times$", "κ": r"$\kappa$", "α": r"$\alpha$",
}  # fmt: skip


class Column(NamedTuple):
    """A column: its head, its alignment (l or r), and the values of a record that form its cell."""

    head: str
    alignment: str
    value_names: tuple[str, ...]


def escape_latex(text: str) -> str:
    """Return text that every LaTeX prints as it is. Characters that need special fonts, and invisible ones, become a question mark."""
    return "".join(
        _ESCAPES.get(character) or (character if _is_printable(character) else "?")
        for character in " ".join(text.split())
    )


def _is_printable(character: str) -> bool:
    """Return whether it is printable ASCII or an accented Latin letter that every LaTeX font encoding can build."""
    if " " <= character < "\x7f":
        return True
    base, _, accent = unicodedata.decomposition(character).partition(" ")
    if base.startswith("<"):  # <compat>: two letters in one, or another form of one
        return False
    return (
        "\u00c0" <= character <= "\u017f" and bool(accent) and accent != _OGONEK_CODE and chr(int(base, 16)).isascii()
    )


_OGONEK_CODE = "0328"  # its accent has no command in the default encoding OT1


def format_tables(document: Json) -> dict[str, str]:
    """Return the text of each LaTeX file by its name, for every table that has rows."""
    texts = {
        name: _format_table_file(name, document)
        for name in DOCUMENT_TABLES
        if document["tables"][DOCUMENT_TABLES[name]]["rows"]
    }
    return {name: text for name, text in texts.items() if text}


_COLUMNS: Mapping[str, tuple[Column, ...]] = {
    "rates": (
        Column("Source", "l", ("source",)),
        Column("Yes / ratings", "r", ("k", "n")),
        Column("Items", "r", ("items",)),
        Column("Raters", "r", ("raters",)),
        Column("Rate", "r", ("rate", "low", "high")),
        Column("Wilson", "r", ("wilson_low", "wilson_high")),
    ),
    "agreement": (
        Column("Coefficient", "l", ("coefficient",)),
        Column("Source", "l", ("source",)),
        Column("Value", "r", ("value",)),
        Column("These raters", "r", ("low", "high")),
        Column("New raters", "r", ("low_new", "high_new")),
        Column("Items", "r", ("items",)),
        Column("Raters", "r", ("raters",)),
    ),
    "detection": (
        Column("Errors", "l", ("source",)),
        Column("Sensitivity", "r", ("sensitivity", "sensitivity_low", "sensitivity_high")),
        Column("Specificity", "r", ("specificity",)),
        Column("$d'$", "r", ("d_prime", "d_prime_low", "d_prime_high")),
        Column("$c$", "r", ("criterion",)),
        Column("AUC", "r", ("auc", "auc_low", "auc_high")),
    ),
    "table1": (
        Column("Who", "l", ("who",)),
        Column("Kind", "l", ("kind",)),
        Column("Agreement", "r", ("agreement", "agreement_low", "agreement_high")),
        Column(r"$\kappa$", "r", ("kappa", "kappa_low", "kappa_high")),
        Column(r"$\Delta\kappa$", "r", ("difference", "difference_low", "difference_high")),
        Column("Items", "r", ("items",)),
        Column("Raters", "r", ("raters_used",)),
    ),
}
_CAPTIONS: Mapping[str, str] = {
    "rates": (
        "Share of ratings with the verdict yes, with the 95% interval for new raters and new items, and the Wilson interval, "
        "which treats the ratings as independent."
    ),
    "agreement": "Agreement between raters, by source and over all sources, with 95% intervals.",
    "detection": (
        "Detection of errors, all raters combined. 95% intervals in brackets. AUC of the signed rating, {with_error} against "
        "{without}, mean over raters."
    ),
    "table1": (
        "Agreement between raters and of model raters with raters, means over raters, with 95% intervals. The "
        "difference is kappa minus the kappa between raters on the same items."
    ),
}


def _format_table_file(name: str, document: Json) -> str:
    rows = list_records(document["tables"][DOCUMENT_TABLES[name]])
    if name == "detection":  # leave out single raters, whose rows are in the CSV file
        rows = [row for row in rows if row["who"] == "all raters"]
    return "".join(_format_table_lines(name, rows, _format_caption(name, document))) if rows else ""


def _format_caption(name: str, document: Json) -> str:
    subject, data = document["subject"], document["data"]
    reference = document["reference"]["name"]
    sentence = _CAPTIONS[name].format(with_error=WITH_ERROR[reference], without=WITHOUT_ERROR[reference])
    simulated_notice = document["composition"]["simulated"]["said"]
    parts = [
        f"{subject['name']}{'' if subject['name'].endswith(('.', '?', '!')) else '.'}", sentence, f"{data['ratings']:,} ratings of {data['items']:,} items by {data['raters']} raters.",
        simulated_notice, "" if document["interim"]["met"] else f"Interim: {document['interim']['said']}",
    ]  # fmt: skip
    return " ".join(filter(None, parts))


def _format_table_lines(name: str, rows: Sequence[Record], caption: str) -> Iterator[str]:
    columns = _COLUMNS[name]
    marks, notes = _format_notes(rows)
    yield "% Generated by WetBench. Needs \\usepackage{booktabs}. Characters that not every LaTeX can print are shown as ?.\n"
    yield "\\begin{table}\n\\centering\n"
    yield f"\\caption{{{escape_latex(caption)}}}\n\\label{{tab:{name}}}\n"
    yield f"\\begin{{tabular}}{{{''.join(column.alignment for column in columns)}}}\n\\toprule\n"
    yield f"{' & '.join(column.head for column in columns)} \\\\\n\\midrule\n"
    for row in rows:
        mark = marks.get(row["reason"], "")
        cells = [_format_cell(row, column) for column in columns]
        cells[0] += f"$^{{{mark}}}$" if mark else ""
        yield f"{' & '.join(cells)} \\\\\n"
    yield "\\bottomrule\n\\end{tabular}\n"
    if notes:
        yield "\n\\medskip\n{\\footnotesize\n"
        yield " \\\\\n".join(notes)
        yield "\\par}\n"
    yield "\\end{table}\n"


def _format_notes(rows: Iterable[Record]) -> tuple[dict[str, str], list[str]]:
    """Return a letter for each reason why numbers are missing, and the notes that explain the letters."""
    reasons = list(dict.fromkeys(row["reason"] for row in rows if row["reason"]))
    marks = {reason: index_to_letters(index).lower() for index, reason in enumerate(reasons)}
    return marks, [f"$^{{{mark}}}$ {escape_latex(reason)}." for reason, mark in marks.items()]


def _format_cell(row: Record, column: Column) -> str:
    values = [row[name] for name in column.value_names]
    match column.value_names:
        case ("k", "n"):
            return f"{values[0]:,} / {values[1]:,}"
        case (_, _, _):
            interval = _format_interval(values[1], values[2])
            return f"{_format_number(values[0])} {interval}" if interval else _format_number(values[0])
        case (_, _):
            return _format_interval(values[0], values[1]) or MISSING_CELL
        case _:
            return _format_number(values[0])


def _format_interval(low: Any, high: Any) -> str:
    # brackets in braces: after a row end LaTeX would read [ as an optional length
    return "" if low is None or high is None else f"{{[}}{_format_number(low)}, {_format_number(high)}{{]}}"


def _format_number(value: Any) -> str:
    match value:
        case None:
            return MISSING_CELL
        case str():
            return escape_latex(value)
        case int():
            return f"{value:,}"
        case _:
            # in text mode LaTeX prints a hyphen instead of a minus
            text = f"{value:.3f}"
            return f"${text}$" if text.startswith("-") else text
