"""Figures of agreement coefficients, people beside models (the paper's Table 1), missed errors, and rates of yes."""

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
LEVEL = 0.05  # Holm-adjusted p below which a contrast is orange with a star
_TOGETHER = ("people", "simulated", "people and simulated")  # kinds that combine all raters
_TONES = dict.fromkeys(_TOGETHER, "blue") | {"machine": "orange", "classifier": "orange", "checker": "green"}


def tone_of(kind: str) -> str:
    return _TONES.get(kind, "slate")


def _who(line: Line) -> str:
    """Return the row's name, with the kind of raters unless they are all people."""
    name, kind = text(line, "who"), text(line, "kind")
    return f"{name} ({kind})" if kind in _TOGETHER and kind != "people" else name


def agreement(document: Document, profile: Profile) -> AnyChart:
    """Draw a section per source, all together first, with a row per defined coefficient."""
    all_lines = tables.rows(document, "agreement")
    # An undefined coefficient has no place on the axis; the figure states how many there are, and the table gives the
    # reasons.
    lines = [line for line in all_lines if number(line, "value") is not None]
    sections = [
        Section(
            source.capitalize() if source == names.POOLED else source,
            [_coefficient(line) for line in lines if text(line, "source") == source],
        )
        for source in tables.first_seen(lines, "source")
    ]
    rows = [row for section in sections for row in section.rows]
    return forest(sections, spanning("Coefficient", rows), profile, undefined=len(all_lines) - len(lines))


def agreement_known(document: Document) -> bool:
    return any(number(line, "value") is not None for line in tables.rows(document, "agreement"))


def say_agreement(document: Document) -> str:
    lines = tables.rows(document, "agreement")
    first = text(lines[0], "source") if lines else ""
    parts = [
        f"{text(line, 'coefficient')} {two(number(line, 'value'))}{_ends(number(line, 'low'), number(line, 'high'), two)}"
        for line in lines
        # Only the first source: a sentence with all sources is too long to be read aloud.
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
    """Draw three plots with the same rows: observed agreement, kappa, and difference from the raters' own kappa."""
    lines = tables.rows(document, "human_model")
    plots = []
    for name, (title, say) in _MEASURES.items():
        rows = [_measured(line, name, say) for line in lines]
        defined = [row for row in rows if row.value is not None]
        if not defined:
            continue
        scale = (
            shares(title)
            # Agreement is a share from 0 to 1; differences are small and need a scale of their own.
            if say is percent
            else spanning(title, defined, *((-0.2, 0.2) if name == "difference" else ()))
        )
        # A row without a difference is the raters themselves, which would be an empty row there.
        plot_rows = defined if name == "difference" else rows
        plots.append(([Section(title, plot_rows)], Scale("", *scale[1:])))
    return stacked(plots, profile)


def _measured(line: Line, name: str, say: Say) -> Row:
    value, low, high = (number(line, field) for field in (name, f"{name}_low", f"{name}_high"))
    who, reason = _who(line), text(line, "reason")
    title = f"{who}: {name} {say(value)}, 95% interval: {interval(low, high, say)}, {count(line, 'items')} items"
    # The paper states no such difference.
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
    """Draw a section per family, with a row per difference of shares or areas that has an interval. d' is only in the table.

    If a figure cannot hold all, each family gets a share of the rows, and its heading states how many are drawn.
    """
    all_lines, drawn = tables.rows(document, "contrasts"), _drawn_contrasts(document)
    families = tables.first_seen(drawn, "family")
    by_family = [[line for line in drawn if text(line, "family") == family] for family in families]
    selected = [
        _keep(lines, share)
        for lines, share in zip(by_family, share_rows([len(lines) for lines in by_family]), strict=True)
    ]
    sections = [
        Section(_family(family, len(lines), all_lines), [_contrast(line) for line in lines])
        for family, lines in zip(families, selected, strict=True)
    ]
    rows = [row for section in sections for row in section.rows]
    scale = spanning("First less second", rows, -0.2, 0.2)
    note = f"{len(rows):,} of {len(all_lines):,} contrasts are shown; the table and the CSV contain all."
    return forest(sections, scale, profile, more=note if len(rows) < len(all_lines) else "")


def _keep(lines: Sequence[Line], share: int) -> list[Line]:
    """Return this many contrasts of a family in order: all of its first quantity before any of its second."""
    order = tables.first_seen(lines, "quantity")
    # Ranked by quantity, then put back into the order of the table, so that a truncated family is still readable.
    ranked = sorted(range(len(lines)), key=lambda at: order.index(text(lines[at], "quantity")))
    return [lines[at] for at in sorted(ranked[:share])]


def _family(family: str, drawn: int, every: Sequence[Line]) -> str:
    """Return the heading of a family, with the number of drawn contrasts unless all are drawn."""
    size = sum(text(line, "family") == family for line in every)
    return f"{family.capitalize()}{f': {drawn} of {size}' if drawn < size else ''}"


def contrasts_known(document: Document) -> bool:
    return bool(_drawn_contrasts(document))


def say_contrasts(document: Document) -> str:
    lines = _drawn_contrasts(document)
    families = [text(line, "family") for line in lines]
    # A screen reader reads only the first few, so each family should be among them.
    # The first contrast of each family, then the others.
    order = sorted(range(len(lines)), key=lambda at: families[at] in families[:at])
    parts = [
        f"{_pair(line)}: {signed(number(line, 'difference'))}{_ends(number(line, 'low'), number(line, 'high'), signed)}"
        for line in (lines[at] for at in order)
    ]
    return f"Differences: {listed(parts)}."


def _drawn_contrasts(document: Document) -> list[Line]:
    lines = tables.rows(document, "contrasts")
    # d' has another unit than differences of shares and cannot be on their axis.
    return [line for line in lines if number(line, "low") is not None and text(line, "quantity") != "d'"]


def _pair(line: Line) -> str:
    """Return the contrast as text, with a common beginning (up to a colon or comma) only once."""
    first, second = text(line, "first"), text(line, "second")
    for mark in (": ", ", "):
        shared, separator, rest = second.rpartition(mark)
        # The common part is removed only where both texts have it, so that the shorter text is not ambiguous.
        if separator and first.startswith(shared + mark):
            second = rest
    return f"{first} less {second}, {text(line, 'quantity')}"


def _contrast(line: Line) -> Row:
    value, low, high, p = (number(line, name) for name in ("difference", "low", "high", "p_holm"))
    is_significant = p is not None and p < LEVEL
    title = f"{_pair(line)}: {signed(value)}, 95% interval: {interval(low, high, signed)}"
    title += f", {count(line, 'items')} items, {count(line, 'raters')} raters"
    title += f", Holm's p {p:.3f}" if p is not None else ""
    title += f" ({text(line, 'reason')})" if text(line, "reason") else ""
    value_text = signed(value) + _ends(low, high, signed) + (" *" if is_significant else "")
    return Row(_pair(line), value, low, high, value_text, title, "orange" if is_significant else "blue")


def misses(document: Document, profile: Profile) -> AnyChart:
    """Draw a section per kind of error after all errors of a type and the false alarms; a row for the raters together and each model."""
    lines = _without_single_raters(document)
    keys = dict.fromkeys((text(line, "error"), words(line, "error_kind")) for line in lines)
    # False alarms come after all errors of a type, because they are compared with those; single kinds follow.
    ordered = sorted(keys, key=lambda key: (bool(key[1]), key[0] == "none"))
    sections = [
        Section(
            _error_name(*key),
            [_caught(line) for line in lines if (text(line, "error"), words(line, "error_kind")) == key],
        )
        for key in ordered
    ]
    return forest(sections, shares("Rated as an error"), profile)


def _without_single_raters(document: Document) -> list[Line]:
    """Return the lines of all raters together and of models."""
    lines = tables.rows(document, "misses")
    # The first row combines all raters, whatever its name is in this study.
    together = text(lines[0], "who") if lines else ""
    return [line for line in lines if text(line, "who") == together or text(line, "kind") in tables.MACHINES]


def _error_name(error: str, kind: str) -> str:
    if error == "none":
        return "No error: false alarms"
    name = f"{error} error".capitalize() if error else "Error"
    return f"{name}: {kind}" if kind else f"{name}s: detected"


def _caught(line: Line) -> Row:
    recall, low, high = (number(line, name) for name in ("recall", "low", "high"))
    who, detected, n = _who(line), count(line, "caught"), count(line, "n")
    what = "false alarms" if text(line, "error") == "none" else "detected"
    title = f"{who}: {percent(recall)} {what}, {detected} of {n}, 95% interval: {interval(low, high)}"
    return Row(who, recall, low, high, f"{percent(recall)} ({detected}/{n})", title, tone_of(text(line, "kind")))


def say_misses(document: Document) -> str:
    lines = _without_single_raters(document)
    parts = [
        f"{_who(line)}, {_error_name(text(line, 'error'), words(line, 'error_kind')).lower()} "
        f"{percent(number(line, 'recall'))} ({count(line, 'caught')} of {count(line, 'n')})"
        for line in lines
    ]
    return f"Rated as an error: {listed(parts)}."


def fractions(document: Document, profile: Profile) -> AnyChart:
    yes, _ = tables.verdict_words(document)
    rows = [_fraction(line, yes) for line in tables.rows(document, "fractions")]
    return forest([Section("", rows)], shares(f"Rated {yes}"), profile, bars=True)


def _fraction(line: Line, yes: str) -> Row:
    share, low, high = (number(line, name) for name in ("share", "low", "high"))
    who, k, n = _who(line), count(line, "k"), count(line, "n")
    title = f"{who}: rates {percent(share)} {yes}, {k} of {n}, 95% interval: {interval(low, high)}"
    published = number(line, "published")
    title += f"; published: {percent(published)}" if published is not None else ""
    tone = tone_of(text(line, "kind"))
    return Row(who, share, low, high, f"{percent(share)} ({k}/{n})", title, tone, published=published)


def say_fractions(document: Document) -> str:
    parts = [
        f"{_who(line)} {percent(number(line, 'share'))} ({count(line, 'k')} of {count(line, 'n')})"
        for line in tables.rows(document, "fractions")
    ]
    return f"Rated {tables.verdict_words(document)[0]}: {listed(parts)}."


def _ends(low: float | None, high: float | None, say: Say) -> str:
    return "" if low is None or high is None else f" ({interval(low, high, say)})"
