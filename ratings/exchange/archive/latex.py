"""Tables of an analysis for LaTeX: what a paper prints first, every name escaped, booktabs and nothing else."""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ratings.blinding.naming import letters
from ratings.results.analyses.tables import records
from ratings.stats.table import WITH_ERROR, WITHOUT_ERROR

Json = Mapping[str, Any]
Record = Mapping[str, Any]

# Each file by its name, and the table of the document it is of.
OF: Mapping[str, str] = {
    "rates": "rates", "agreement": "agreement", "detection": "detection", "table1": "human_model",
}  # fmt: skip
NONE = "--"
_SIGNS: Mapping[str, str] = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': "''", "[": "{[}", "]": "{]}", "`": "`",
    "*": "{*}",  # LaTeX looks for a star after the end of a row
    "“": "``", "”": "''", "‘": "`", "’": "'", "–": "--", "—": "---", "…": r"\dots{}", "\u00a0": "~", "µ": r"$\mu$",
    "μ": r"$\mu$", "±": r"$\pm$", "×": r"$\times$", "κ": r"$\kappa$", "α": r"$\alpha$",
}  # fmt: skip


class Column(NamedTuple):
    """A column's head, l or r, and how a record's cell reads."""

    head: str
    side: str
    names: tuple[str, ...]


def escape(text: str) -> str:
    """Text that any LaTeX sets as it stands; what needs a font of its own, and what is not shown, stands as ?."""
    return "".join(_SIGNS.get(sign) or (sign if _plain(sign) else "?") for sign in " ".join(text.split()))


def _plain(sign: str) -> bool:
    """ASCII, and Latin letters with an accent that every font encoding of LaTeX can make."""
    if " " <= sign < "\x7f":
        return True
    base, _, accent = unicodedata.decomposition(sign).partition(" ")
    if base.startswith("<"):  # <compat>: two letters in one, or another form of one
        return False
    return "\u00c0" <= sign <= "\u017f" and bool(accent) and accent != _OGONEK and chr(int(base, 16)).isascii()


_OGONEK = "0328"


def tables(made: Json) -> dict[str, str]:
    """Every table that has rows, as the text of a file."""
    written = {name: _written(name, made) for name in OF if made["tables"][OF[name]]["rows"]}
    return {name: text for name, text in written.items() if text}


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
_SAYS: Mapping[str, str] = {
    "rates": (
        "Share of the ratings that say yes, with the 95% interval for new raters and new items, and beside it Wilson's, "
        "which takes the ratings as independent."
    ),
    "agreement": "Agreement between raters, by source and over all sources together, with 95% intervals.",
    "detection": (
        "Detection of errors, all raters together: 95% intervals in brackets; AUC of the signed rating, {with_error} against "
        "{without}, mean over raters."
    ),
    "table1": (
        "Agreement of raters with each other and of machines with raters, means over raters, with 95% intervals; the "
        "difference is kappa less that of the raters with each other on the same items."
    ),
}


def _written(name: str, made: Json) -> str:
    rows = records(made["tables"][OF[name]])
    if name == "detection":  # of single raters the CSV tells
        rows = [row for row in rows if row["who"] == "all raters"]
    return "".join(_lines(name, rows, _caption(name, made))) if rows else ""


def _caption(name: str, made: Json) -> str:
    about, data = made["subject"], made["data"]
    reference = made["reference"]["name"]
    says = _SAYS[name].format(with_error=WITH_ERROR[reference], without=WITHOUT_ERROR[reference])
    simulated = made["composition"]["simulated"]["said"]
    parts = [
        f"{about['name']}{'' if about['name'].endswith(('.', '?', '!')) else '.'}", says, f"{data['ratings']:,} ratings of {data['items']:,} items by {data['raters']} raters.",
        simulated, "" if made["interim"]["met"] else f"Interim: {made['interim']['said']}",
    ]  # fmt: skip
    return " ".join(filter(None, parts))


def _lines(name: str, rows: Sequence[Record], caption: str) -> Iterator[str]:
    columns = _COLUMNS[name]
    marks, notes = _notes(rows)
    yield "% Written by WetBench. It needs \\usepackage{booktabs}; signs that not every LaTeX has stand as ?.\n"
    yield "\\begin{table}\n\\centering\n"
    yield f"\\caption{{{escape(caption)}}}\n\\label{{tab:{name}}}\n"
    yield f"\\begin{{tabular}}{{{''.join(column.side for column in columns)}}}\n\\toprule\n"
    yield f"{' & '.join(column.head for column in columns)} \\\\\n\\midrule\n"
    for row in rows:
        mark = marks.get(row["reason"], "")
        cells = [_cell(row, column) for column in columns]
        cells[0] += f"$^{{{mark}}}$" if mark else ""
        yield f"{' & '.join(cells)} \\\\\n"
    yield "\\bottomrule\n\\end{tabular}\n"
    if notes:
        yield "\n\\medskip\n{\\footnotesize\n"
        yield " \\\\\n".join(notes)
        yield "\\par}\n"
    yield "\\end{table}\n"


def _notes(rows: Iterable[Record]) -> tuple[dict[str, str], list[str]]:
    """Why numbers are missing: a letter for each reason, and what it stands for."""
    reasons = list(dict.fromkeys(row["reason"] for row in rows if row["reason"]))
    marks = {reason: letters(at).lower() for at, reason in enumerate(reasons)}
    return marks, [f"$^{{{mark}}}$ {escape(reason)}." for reason, mark in marks.items()]


def _cell(row: Record, column: Column) -> str:
    values = [row[name] for name in column.names]
    match column.names:
        case ("k", "n"):
            return f"{values[0]:,} / {values[1]:,}"
        case (_, _, _):
            interval = _interval(values[1], values[2])
            return f"{_number(values[0])} {interval}" if interval else _number(values[0])
        case (_, _):
            return _interval(values[0], values[1]) or NONE
        case _:
            return _number(values[0])


def _interval(low: Any, high: Any) -> str:
    return "" if low is None or high is None else f"{{[}}{_number(low)}, {_number(high)}{{]}}"


def _number(value: Any) -> str:
    match value:
        case None:
            return NONE
        case str():
            return escape(value)
        case int():
            return f"{value:,}"
        case _:
            shown = f"{value:.3f}"
            return f"${shown}$" if shown.startswith("-") else shown
