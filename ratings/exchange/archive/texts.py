"""The texts of an archive: methods.txt, README.md and LaTeX tables, from the templates in templates/ratings/archive.

The templates escape nothing by themselves; LaTeX and Markdown texts pass the filters `latex` and `markdown`.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from django.conf import settings
from django.template import Context, Engine, Library

from ratings.blinding.pseudonyms import index_to_letters
from ratings.exchange.archive.archive_files import ArchiveFile
from ratings.exchange.archive.study_facts import CountRange, StudyFacts, get_blinding_certificate
from ratings.exchange.archive.study_files import IMPORTED_GROUPS, RATER_GROUPS
from ratings.models import TRANSITION, Study
from ratings.protocol.study_protocol import CHOICES
from ratings.results.analyses.tables import list_records
from ratings.stats.estimates import METHODS
from ratings.stats.ratings_table import NO_TRUTH, WITH_ERROR, WITHOUT_ERROR
from ratings.studies import protocol_words
from wetbench_site.text import format_count, join_words

Json = Mapping[str, Any]
register = Library()
register.filter("count", format_count)


@register.filter("and_list")
def join_with_and(parts: Iterable[str]) -> str:
    """Return "a", "a and b" or "a, b and c"; "" if there are no parts."""
    names = list(parts)
    return join_words(names) if names else ""


@register.filter("thousands")
def format_thousands(number: int) -> str:
    return f"{number:,}"


@register.filter("percent")
def format_percent(share: float, digits: int = 1) -> str:
    return f"{share:.{digits}%}"


@register.filter("lower_first")
def lower_first_letter(text: str) -> str:
    return text[:1].lower() + text[1:]


@register.filter("day")
def format_day(moment: datetime | str) -> str:
    """Return a time, or its ISO text, as a day such as "1 June 2026"."""
    time = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    return f"{time.day} {time:%B %Y}"


@register.filter("span")
def format_range(counts: CountRange) -> str:
    if counts.least == counts.most:
        return f"{counts.least:,}"
    return f"{counts.least:,} to {counts.most:,} (median {counts.middle:g})"


@register.filter("braces")
def put_in_braces(text: str) -> str:
    return f"{{{text}}}"


@register.filter("markdown")
def escape_markdown_line(text: str) -> str:
    """Return text of unknown origin on one line, escaped so that Markdown displays it literally."""
    return re.sub(r"([\\`*_\[\]<>#|&])", r"\\\1", " ".join(text.split()))


_ESCAPES: Mapping[str, str] = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': "''", "[": "{[}", "]": "{]}", "`": "`",
    "*": "{*}",  # at the start of a row LaTeX would read it as the starred form of the row end before it
    "“": "``", "”": "''", "‘": "`", "’": "'", "–": "--", "—": "---", "…": r"\dots{}", "\u00a0": "~", "µ": r"$\mu$",
    "μ": r"$\mu$", "±": r"$\pm$", "×": r"$\times$", "κ": r"$\kappa$", "α": r"$\alpha$",
}  # fmt: skip
_OGONEK_CODE = "0328"  # its accent has no command in the default encoding OT1


@register.filter("latex")
def escape_latex(text: str) -> str:
    """Return text that every LaTeX prints as it is. Characters that need special fonts, and invisible ones, become a question mark."""
    characters = " ".join(text.split())
    return "".join(_ESCAPES.get(one) or (one if _is_printable(one) else "?") for one in characters)


def _is_printable(character: str) -> bool:
    """Return whether it is printable ASCII or an accented Latin letter that every LaTeX font encoding can build."""
    if " " <= character < "\x7f":
        return True
    base, _, accent = unicodedata.decomposition(character).partition(" ")
    # <compat>: two letters in one, or another form of one
    if base.startswith("<") or not accent or accent == _OGONEK_CODE:
        return False
    return "\u00c0" <= character <= "\u017f" and chr(int(base, 16)).isascii()


@cache
def _get_engine() -> Engine:
    folder = str(settings.BASE_DIR / "templates" / "ratings" / "archive")
    return Engine(dirs=[folder], autoescape=False, builtins=[__name__])


def _render_sentences(name: str, context: Mapping[str, Any]) -> str:
    """Render one sentence a line, paragraphs separated by an empty line; omit empty sentences and paragraphs."""
    source = _get_engine().find_template(name)[0].source
    values = Context(dict(context), autoescape=False, use_l10n=False)
    paragraphs = (
        " ".join(filter(None, (_get_engine().from_string(line).render(values) for line in paragraph.splitlines())))
        for paragraph in source.strip().split("\n\n")
    )
    return "\n\n".join(filter(None, paragraphs)) + "\n"


def format_readme(study: Study, blinded: bool, files: Sequence[ArchiveFile], document: Json | None) -> str:
    """Return README.md. `document` is the analysis document, None in the blinded variant."""
    context = {"study": study, "blinded": blinded, "files": files, "document": document, "line_break": "\n"}
    return _render_sentences("readme.md", context)


_RATER_PHRASES = {
    "simulated": ("simulated rater", " (programs that know which errors were planted and add noise to that knowledge; their results are not evidence about people)"),
    "simulated, imported": ("simulated rater", " whose ratings were collected elsewhere and imported (not evidence about people)"),
    "imported": ("rater", " whose ratings were collected elsewhere and imported"),
}  # fmt: skip  # fmt: skip


def _describe_rater_group(group: str, n: int) -> str:
    if group not in _RATER_PHRASES:
        return f"{n:,} {'person' if n == 1 else 'people'}"
    noun, remark = _RATER_PHRASES[group]
    return format_count(n, noun) + remark


def format_methods(
    study: Study, facts: StudyFacts, blinded: bool, document: Json | None = None, shared_items: CountRange | None = None
) -> str:
    """Return the text of methods.txt: what was actually done, in sentences and numbers that a paper can use.

    It contains nothing by source unless the analysis `document` is given. `shared_items` is the range of the number of
    items that two raters share.
    """
    protocol, groups = facts.protocol, set(facts.raters)
    requested = join_with_and(str(source) for source in protocol.sources)
    origins = (f"the protocol requests {requested}" if requested else "",
               f"{facts.imported_items:,} were imported" if facts.imported_items else "")  # fmt: skip
    is_unreviewed = document is not None and protocol_words.has_unreviewed_errors(study)
    context = {
        "study": study, "facts": facts, "protocol": protocol, "document": document, "blinded": blinded,
        "shared_items": shared_items, "is_transition": study.kind == TRANSITION, "no_truth": NO_TRUTH,
        "origins": list(filter(None, origins)),
        "words": {name: CHOICES[name][getattr(protocol, name)].name for name in ("vetting", "conditions", "stop") if getattr(protocol, name)},
        "unreviewed_note": protocol_words.UNREVIEWED_NOTE if is_unreviewed else "",
        "rater_groups": [_describe_rater_group(group, facts.raters[group]) for group in RATER_GROUPS if facts.raters.get(group)],
        # Orders and arms are those of ratings collected here; imported ones have none.
        "has_own_orders": bool(groups - IMPORTED_GROUPS), "has_imported": bool(groups & IMPORTED_GROUPS),
        "exclusions": [f"{n:,} {reason}" for reason, n in facts.left_out.items() if n],
        "audit": get_blinding_certificate(study, blinded),
        "interval_methods": _number_methods(document) if document else "",
    }  # fmt: skip
    return _render_sentences("methods.txt", context)


def _number_methods(document: Json) -> str:
    # In the order of METHODS, so that the numbering does not depend on the order of the results.
    names = sorted({row["method"] for row in document["results"] if row["method"]}, key=list(METHODS).index)
    return "; ".join(f"({index}) {METHODS[name].replace(';', ',')}" for index, name in enumerate(names, 1))


# The name of each LaTeX file, and the table of the analysis document that it prints.
DOCUMENT_TABLES: Mapping[str, str] = {
    "rates": "rates", "agreement": "agreement", "detection": "detection", "table1": "human_model",
}  # fmt: skip
MISSING_CELL = "--"
# The head of each column, and the values of a row that form its cell. The first columns, up to `_TEXT_COLUMNS`, are text.
_COLUMNS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "rates": (
        ("Source", "source"), ("Yes / ratings", "k n"), ("Items", "items"), ("Raters", "raters"),
        ("Rate", "rate low high"), ("Wilson", "wilson_low wilson_high"),
    ),
    "agreement": (
        ("Coefficient", "coefficient"), ("Source", "source"), ("Value", "value"), ("These raters", "low high"),
        ("New raters", "low_new high_new"), ("Items", "items"), ("Raters", "raters"),
    ),
    "detection": (
        ("Errors", "source"), ("Sensitivity", "sensitivity sensitivity_low sensitivity_high"), ("Specificity", "specificity"),
        ("$d'$", "d_prime d_prime_low d_prime_high"), ("$c$", "criterion"), ("AUC", "auc auc_low auc_high"),
    ),
    "table1": (
        ("Who", "who"), ("Kind", "kind"), ("Agreement", "agreement agreement_low agreement_high"),
        (r"$\kappa$", "kappa kappa_low kappa_high"), (r"$\Delta\kappa$", "difference difference_low difference_high"),
        ("Items", "items"), ("Raters", "raters_used"),
    ),
}  # fmt: skip
_TEXT_COLUMNS = ("source", "coefficient", "who", "kind")  # aligned to the left
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


def format_tables(document: Json) -> dict[str, str]:
    """Return the text of each LaTeX file by its name, for every table that has rows. They need only the package booktabs."""
    texts = {}
    for name, table in DOCUMENT_TABLES.items():
        rows = list_records(document["tables"][table])
        if name == "detection":  # leave out single raters, whose rows are in the CSV file
            rows = [row for row in rows if row["who"] == "all raters"]
        if rows:
            texts[name] = _format_table(name, rows, _format_caption(name, document))
    return texts


def _format_caption(name: str, document: Json) -> str:
    title, data, reference = document["subject"]["name"], document["data"], document["reference"]["name"]
    parts = [
        f"{title}{'' if title.endswith(('.', '?', '!')) else '.'}",
        _CAPTIONS[name].format(with_error=WITH_ERROR[reference], without=WITHOUT_ERROR[reference]),
        f"{data['ratings']:,} ratings of {data['items']:,} items by {data['raters']} raters.",
        document["composition"]["simulated"]["said"],
        "" if document["interim"]["met"] else f"Interim: {document['interim']['said']}",
    ]
    return " ".join(filter(None, parts))


def _format_table(name: str, rows: Sequence[Json], caption: str) -> str:
    columns = [(head, names.split()) for head, names in _COLUMNS[name]]
    # A letter for each reason why numbers are missing; the notes below the table explain the letters.
    reasons = dict.fromkeys(row["reason"] for row in rows if row["reason"])
    marks = {reason: index_to_letters(index).lower() for index, reason in enumerate(reasons)}
    cell_rows = []
    for row in rows:
        cells = [_format_cell(names, [row[value] for value in names]) for _, names in columns]
        cells[0] += f"$^{{{marks[row['reason']]}}}$" if row["reason"] else ""
        cell_rows.append(cells)
    context = {
        "name": name, "caption": caption, "heads": [head for head, _ in columns], "rows": cell_rows,
        "alignment": "".join("l" if names[0] in _TEXT_COLUMNS else "r" for _, names in columns),
        "notes": {mark: reason for reason, mark in marks.items()},
    }  # fmt: skip
    return _get_engine().get_template("table.tex").render(Context(context, autoescape=False, use_l10n=False))


def _format_cell(names: Sequence[str], values: Sequence[Any]) -> str:
    """Return the cell of one value, of a count of a total, of an interval, or of a value with its interval."""
    if names == ["k", "n"]:
        return f"{values[0]:,} / {values[1]:,}"
    *single, low, high = values if len(values) > 1 else (*values, None, None)
    # Brackets in braces: after a row end LaTeX would read [ as an optional length.
    interval = "" if low is None or high is None else f"{{[}}{_format_number(low)}, {_format_number(high)}{{]}}"
    return " ".join(filter(None, [*map(_format_number, single), interval])) or MISSING_CELL


def _format_number(value: Any) -> str:
    match value:
        case None:
            return MISSING_CELL
        case str():
            return escape_latex(value)
        case int():
            return f"{value:,}"
    text = f"{value:.3f}"
    # In text mode LaTeX prints a hyphen instead of a minus.
    return f"${text}$" if text.startswith("-") else text
