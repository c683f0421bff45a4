"""The terms of docs/glossary.md, which is the only place where they are explained."""

import re
from functools import cache
from typing import NamedTuple

from wetbench_site.help import contents
from wetbench_site.help.anchors import make_anchor

_COMMA = re.compile(r", (?![^()]*\))")  # not inside parentheses
_MARKUP = re.compile(r"[`*]|\[([^\]]*)\]\([^)]*\)")


class Term(NamedTuple):
    """One term. `other_name` is what the field or the paper calls it; "" if that is the same."""

    name: str
    anchor: str
    meaning: str
    other_name: str


class GlossaryError(ValueError):
    """A term is missing from the glossary or explained twice."""


def get_term(name: str) -> Term:
    """Return the term of this name. Raises GlossaryError if the glossary does not explain it."""
    try:
        return load_terms()[make_anchor(name)]
    except KeyError:
        raise GlossaryError(
            f"docs/glossary.md does not explain {name!r}: add a row for it, or correct the name"
        ) from None


@cache
def load_terms() -> dict[str, Term]:
    """Return all terms by their anchors. Raises GlossaryError if a term has two rows."""
    text = (contents.FOLDER / f"{contents.GLOSSARY}.md").read_text("utf-8")
    terms: dict[str, Term] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("| ") or len(cells) != 3 or cells[0] == "Term":
            continue
        for term in _parse_row(*cells):
            if term.anchor in terms:
                raise GlossaryError(f"docs/glossary.md explains {term.name!r} twice")
            terms[term.anchor] = term
    return terms


def split_names(cell: str) -> list[str]:
    """Return the terms that a row explains together: "Lease, fence"."""
    return _COMMA.split(cell)


def _parse_row(first: str, meaning: str, other_name: str) -> list[Term]:
    names = split_names(first)
    # A row with several terms explains each in turn, unless they share one explanation.
    parts = meaning.split("; ")
    meanings = parts if len(parts) == len(names) else [meaning] * len(names)
    return [
        Term(name, make_anchor(name), _format_sentence(meaning), _strip_markup(other_name))
        for name, meaning in zip(names, meanings, strict=True)
    ]


def _format_sentence(text: str) -> str:
    plain = _strip_markup(text)
    return f"{plain[0].upper()}{plain[1:]}."


def _strip_markup(text: str) -> str:
    return _MARKUP.sub(lambda match: match[1] or "", text)
