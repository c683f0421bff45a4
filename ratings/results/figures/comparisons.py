"""Coefficients of agreement, people beside machines (the paper's Table 1), what is missed, how often each says yes."""

from collections.abc import Mapping, Sequence

from ratings.results.figures import names, tables
from ratings.results.figures.forest import Scale, forest, share_rows, shares, spanning, stacked
from ratings.results.figures.placing import Row, Section
from ratings.results.figures.tables import Document, Line, count, number, text, words
from ratings.results.figures.theme import AnyChart, Profile
from ratings.results.figures.wording import Say, few_items, interval, listed, percent, signed, two

_MEASURES: Mapping[str, tuple[str, Say]] = {
    "agreement": ("Agreement", percent),
    "kappa": ("Cohen's kappa", two),
    "difference": ("Difference in kappa from the raters' own", two),
}
LEVEL = 0.05  # of Holm's p: below it a contrast is orange and has a star
_TOGETHER = ("people", "simulated", "people and simulated")  # kinds of all raters
_TONES = dict.fromkeys(_TOGETHER, "blue") | {"machine": "orange", "classifier": "orange", "checker": "green"}


def tone_of(kind: str) -> str:
    return _TONES.get(kind, "slate")


def _who(line: Line) -> str:
    """The row's name; of raters that are not all people, what they are."""
    who, kind = text(line, "who"), text(line, "kind")
    return f"{who} ({kind})" if kind in _TOGETHER and kind != "people" else who


def agreement(document: Document, profile: Profile) -> AnyChart:
    """A section for each source, all together first; a row for each coefficient that is defined."""
    every = tables.rows(document, "agreement")
    lines = [line for line in every if number(line, "value") is not None]
    sections = [
        Section(
            source.capitalize() if source == names.POOLED else source,
            [_coefficient(line) for line in lines if text(line, "source") == source],
        )
        for source in tables.first_seen(lines, "source")
    ]
    rows = [row for section in sections for row in section.rows]
    return forest(sections, spanning("Coefficient", rows), profile, undefined=len(every) - len(lines))


def agreement_known(document: Document) -> bool:
    return any(number(line, "value") is not None for line in tables.rows(document, "agreement"))


def say_agreement(document: Document) -> str:
    lines = tables.rows(document, "agreement")
    first = text(lines[0], "source") if lines else ""
    parts = [
        f"{text(line, 'coefficient')} {two(number(line, 'value'))}{_ends(number(line, 'low'), number(line, 'high'), two)}"
        for line in lines
        if text(line, "source") == first
    ]
    return f"Agreement, {first}: {listed(parts)}."


def _coefficient(line: Line) -> Row:
    value, low, high = (number(line, name) for name in ("value", "low", "high"))
    outer_low, outer_high = number(line, "low_new"), number(line, "high_new")
    outer = None if outer_low is None or outer_high is None else (outer_low, outer_high)
    name, reason = text(line, "coefficient"), text(line, "reason")
    title = f"{name}: {two(value)}, these raters: {interval(low, high, two)}, new raters: {interval(outer_low, outer_high, two)}"
    title += f", {count(line, 'items')} items, {count(line, 'raters')} raters"
    title += f" ({reason})" if reason else ""
    return Row(name, value, low, high, two(value) + _ends(low, high, two) + few_items(reason), title, outer=outer)


def human_model_known(document: Document) -> bool:
    return any(number(line, name) is not None for line in tables.rows(document, "human_model") for name in _MEASURES)


def human_model(document: Document, profile: Profile) -> AnyChart:
    """Three plots below each other with the same rows: observed agreement, kappa, difference from the raters' own kappa."""
    lines = tables.rows(document, "human_model")
    made = []
    for name, (title, say) in _MEASURES.items():
        rows = [_measured(line, name, say) for line in lines]
        defined = [row for row in rows if row.value is not None]
        if not defined:
            continue
        scale = (
            shares(title)
            if say is percent
            else spanning(title, defined, *((-0.2, 0.2) if name == "difference" else ()))
        )
        shown = defined if name == "difference" else rows
        made.append(([Section(title, shown)], Scale("", *scale[1:])))
    return stacked(made, profile)


def _measured(line: Line, name: str, say: Say) -> Row:
    value, low, high = (number(line, field) for field in (name, f"{name}_low", f"{name}_high"))
    who, reason = _who(line), text(line, "reason")
    title = f"{who}: {name} {say(value)}, 95% interval: {interval(low, high, say)}, {count(line, 'items')} items"
    published = number(line, f"published_{name}") if name != "difference" else None
    title += f"; published: {say(published)}" if published is not None else ""
    title += f" ({reason})" if reason and (value is None or few_items(reason)) else ""
    return Row(
        who,
        value,
        low,
        high,
        say(value) + _ends(low, high, say) + few_items(reason),
        title,
        tone_of(text(line, "kind")),
        published=published,
    )


def say_human_model(document: Document) -> str:
    parts = [
        f"{_who(line)} {percent(number(line, 'agreement'))}, kappa {two(number(line, 'kappa'))}"
        for line in tables.rows(document, "human_model")
    ]
    return f"Agreement with the raters: {listed(parts)}."


def contrasts(document: Document, profile: Profile) -> AnyChart:
    """A section for each family; a row for each difference of shares or areas that has an interval. d' is in the table.

    Where there are more than a figure holds, each family has a share of the rows, and its heading says how many of how many.
    """
    every, drawn = tables.rows(document, "contrasts"), _drawn_contrasts(document)
    families = tables.first_seen(drawn, "family")
    own = [[line for line in drawn if text(line, "family") == family] for family in families]
    kept = [_keep(lines, share) for lines, share in zip(own, share_rows([len(lines) for lines in own]), strict=True)]
    sections = [
        Section(_family(family, len(lines), every), [_contrast(line) for line in lines])
        for family, lines in zip(families, kept, strict=True)
    ]
    rows = [row for section in sections for row in section.rows]
    scale = spanning("First less second", rows, -0.2, 0.2)
    said = f"{len(rows):,} of {len(every):,} contrasts are drawn; all of them are in the table and in the CSV."
    return forest(sections, scale, profile, more=said if len(rows) < len(every) else "")


def _keep(lines: Sequence[Line], share: int) -> list[Line]:
    """Return so many contrasts of a family in their order: all of its first quantity before any of its second."""
    order = tables.first_seen(lines, "quantity")
    ranked = sorted(range(len(lines)), key=lambda at: order.index(text(lines[at], "quantity")))
    return [lines[at] for at in sorted(ranked[:share])]


def _family(family: str, drawn: int, every: Sequence[Line]) -> str:
    """Return the heading of a family, with how many of its contrasts are drawn where that is not all of them."""
    size = sum(text(line, "family") == family for line in every)
    return f"{family.capitalize()}{f': {drawn} of {size}' if drawn < size else ''}"


def contrasts_known(document: Document) -> bool:
    return bool(_drawn_contrasts(document))


def say_contrasts(document: Document) -> str:
    lines = _drawn_contrasts(document)
    seen = [text(line, "family") for line in lines]
    # The first of each family, then the others.
    order = sorted(range(len(lines)), key=lambda at: seen[at] in seen[:at])
    parts = [
        f"{_pair(line)}: {signed(number(line, 'difference'))}{_ends(number(line, 'low'), number(line, 'high'), signed)}"
        for line in (lines[at] for at in order)
    ]
    return f"Differences: {listed(parts)}."


def _drawn_contrasts(document: Document) -> list[Line]:
    lines = tables.rows(document, "contrasts")
    return [line for line in lines if number(line, "low") is not None and text(line, "quantity") != "d'"]


def _pair(line: Line) -> str:
    """The contrast in words; what both sides begin with, up to a colon or a comma, is there once."""
    first, second = text(line, "first"), text(line, "second")
    for mark in (": ", ", "):
        shared, found, rest = second.rpartition(mark)
        if found and first.startswith(shared + mark):
            second = rest
    return f"{first} less {second}, {text(line, 'quantity')}"


def _contrast(line: Line) -> Row:
    value, low, high, p = (number(line, name) for name in ("difference", "low", "high", "p_holm"))
    clear = p is not None and p < LEVEL
    title = f"{_pair(line)}: {signed(value)}, 95% interval: {interval(low, high, signed)}"
    title += f", {count(line, 'items')} items, {count(line, 'raters')} raters"
    title += f", Holm's p {p:.3f}" if p is not None else ""
    title += f" ({text(line, 'reason')})" if text(line, "reason") else ""
    said = signed(value) + _ends(low, high, signed) + (" *" if clear else "")
    return Row(_pair(line), value, low, high, said, title, "orange" if clear else "blue")


def misses(document: Document, profile: Profile) -> AnyChart:
    """All errors of a type and the false alarms, then a section for each kind of error; a row for the raters together and
    for each machine."""
    lines = _without_single_raters(document)
    keys = dict.fromkeys((text(line, "error"), words(line, "error_kind")) for line in lines)
    ordered = sorted(keys, key=lambda key: (bool(key[1]), key[0] == "none"))
    sections = [
        Section(
            _error_name(*key),
            [_caught(line) for line in lines if (text(line, "error"), words(line, "error_kind")) == key],
        )
        for key in ordered
    ]
    return forest(sections, shares("Called an error"), profile)


def _without_single_raters(document: Document) -> list[Line]:
    """All raters together, which come first, and the machines."""
    lines = tables.rows(document, "misses")
    together = text(lines[0], "who") if lines else ""
    return [line for line in lines if text(line, "who") == together or text(line, "kind") in tables.MACHINES]


def _error_name(error: str, kind: str) -> str:
    if error == "none":
        return "No error: false alarms"
    named = f"{error} error".capitalize() if error else "Error"
    return f"{named}: {kind}" if kind else f"{named}s: caught"


def _caught(line: Line) -> Row:
    recall, low, high = (number(line, name) for name in ("recall", "low", "high"))
    who, caught, n = _who(line), count(line, "caught"), count(line, "n")
    what = "false alarms" if text(line, "error") == "none" else "caught"
    title = f"{who}: {percent(recall)} {what}, {caught} of {n}, 95% interval: {interval(low, high)}"
    return Row(who, recall, low, high, f"{percent(recall)} ({caught}/{n})", title, tone_of(text(line, "kind")))


def say_misses(document: Document) -> str:
    lines = _without_single_raters(document)
    parts = [
        f"{_who(line)}, {_error_name(text(line, 'error'), words(line, 'error_kind')).lower()} "
        f"{percent(number(line, 'recall'))} ({count(line, 'caught')} of {count(line, 'n')})"
        for line in lines
    ]
    return f"Called an error: {listed(parts)}."


def fractions(document: Document, profile: Profile) -> AnyChart:
    yes, _ = tables.verdict_words(document)
    rows = [_fraction(line, yes) for line in tables.rows(document, "fractions")]
    return forest([Section("", rows)], shares(f"Says {yes}"), profile, bars=True)


def _fraction(line: Line, yes: str) -> Row:
    share, low, high = (number(line, name) for name in ("share", "low", "high"))
    who, k, n = _who(line), count(line, "k"), count(line, "n")
    title = f"{who}: says {yes} of {percent(share)}, {k} of {n}, 95% interval: {interval(low, high)}"
    published = number(line, "published")
    title += f"; published: {percent(published)}" if published is not None else ""
    tone = tone_of(text(line, "kind"))
    return Row(who, share, low, high, f"{percent(share)} ({k}/{n})", title, tone, published=published)


def say_fractions(document: Document) -> str:
    parts = [
        f"{_who(line)} {percent(number(line, 'share'))} ({count(line, 'k')} of {count(line, 'n')})"
        for line in tables.rows(document, "fractions")
    ]
    return f"Says {tables.verdict_words(document)[0]}: {listed(parts)}."


def _ends(low: float | None, high: float | None, say: Say) -> str:
    return "" if low is None or high is None else f" ({interval(low, high, say)})"
