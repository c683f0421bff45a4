"""Figures of agreement coefficients, people beside models (the paper's Table 1), missed errors, and rates of yes."""

from collections.abc import Mapping, Sequence

from ratings.results.figures import names, tables
from ratings.results.figures.forest import (
    AxisScale,
    ForestRow,
    ForestSection,
    draw_forest,
    make_scale,
    make_share_scale,
    share_rows,
    stack_forests,
)
from ratings.results.figures.tables import (
    Document,
    FormatFunction,
    TableRow,
    few_items_note,
    format_interval,
    format_percent,
    format_signed,
    format_two_decimals,
    get_count,
    get_number,
    get_spaced,
    get_text,
    join_parts,
)
from ratings.results.figures.theme import AnyChart, FigureSize

_MEASURES: Mapping[str, tuple[str, FormatFunction]] = {
    "agreement": ("Agreement", format_percent),
    "kappa": ("Cohen's kappa", format_two_decimals),
    "difference": ("Difference in kappa from the raters' own", format_two_decimals),
}
LEVEL = 0.05  # Holm-adjusted p below which a contrast is orange with a star
_TOGETHER = ("people", "simulated", "people and simulated")  # kinds of rows that combine all raters
_TONES = dict.fromkeys(_TOGETHER, "blue") | {"machine": "orange", "classifier": "orange", "checker": "green"}


def tone_of_kind(kind: str) -> str:
    return _TONES.get(kind, "slate")


def _name_row(line: TableRow) -> str:
    """Return the name of a row; in rows that combine raters who are not all people, the kind of raters is added."""
    name, kind = get_text(line, "who"), get_text(line, "kind")
    return f"{name} ({kind})" if kind in _TOGETHER and kind != "people" else name


def draw_agreement(document: Document, profile: FigureSize) -> AnyChart:
    """Draw a section for all sources together, then one per source, each with a row per defined coefficient."""
    all_lines = tables.get_rows(document, "agreement")
    # An undefined coefficient has no place on the axis; the figure states how many there are, and the table gives the
    # reasons.
    lines = [line for line in all_lines if get_number(line, "value") is not None]
    sections = [
        ForestSection(
            source.capitalize() if source == names.POOLED else source,
            [_coefficient_row(line) for line in lines if get_text(line, "source") == source],
        )
        for source in tables.list_distinct(lines, "source")
    ]
    rows = [row for section in sections for row in section.rows]
    return draw_forest(sections, make_scale("Coefficient", rows), profile, undefined=len(all_lines) - len(lines))


def has_agreement(document: Document) -> bool:
    return any(get_number(line, "value") is not None for line in tables.get_rows(document, "agreement"))


def describe_agreement(document: Document) -> str:
    lines = tables.get_rows(document, "agreement")
    first = get_text(lines[0], "source") if lines else ""
    parts = [
        f"{get_text(line, 'coefficient')} {format_two_decimals(get_number(line, 'value'))}{_format_ends(get_number(line, 'low'), get_number(line, 'high'), format_two_decimals)}"
        for line in lines
        # Only the first source: a sentence with all sources is too long to be read aloud.
        if get_text(line, "source") == first
    ]
    return f"Agreement, {first}: {join_parts(parts)}."


def _coefficient_row(line: TableRow) -> ForestRow:
    value, low, high = (get_number(line, name) for name in ("value", "low", "high"))
    outer_low, outer_high = get_number(line, "low_new"), get_number(line, "high_new")
    outer = None if outer_low is None or outer_high is None else (outer_low, outer_high)
    name, reason = get_text(line, "coefficient"), get_text(line, "reason")
    title = f"{name}: {format_two_decimals(value)}, these raters: {format_interval(low, high, format_two_decimals)}, new raters: {format_interval(outer_low, outer_high, format_two_decimals)}"
    title += f", {get_count(line, 'items')} items, {get_count(line, 'raters')} raters"
    title += f" ({reason})" if reason else ""
    return ForestRow(
        name,
        value,
        low,
        high,
        format_two_decimals(value) + _format_ends(low, high, format_two_decimals) + few_items_note(reason),
        title,
        outer=outer,
    )


def has_human_model(document: Document) -> bool:
    return any(
        get_number(line, name) is not None for line in tables.get_rows(document, "human_model") for name in _MEASURES
    )


def draw_human_model(document: Document, profile: FigureSize) -> AnyChart:
    """Draw three plots with the same rows: observed agreement, kappa, and difference from the raters' own kappa."""
    lines = tables.get_rows(document, "human_model")
    plots = []
    for name, (title, say) in _MEASURES.items():
        rows = [_measure_row(line, name, say) for line in lines]
        defined = [row for row in rows if row.value is not None]
        if not defined:
            continue
        scale = (
            make_share_scale(title)
            # Agreement is a share from 0 to 1; differences are small and need a scale of their own.
            if say is format_percent
            else make_scale(title, defined, *((-0.2, 0.2) if name == "difference" else ()))
        )
        # Rows of the raters themselves have no difference, and would be empty rows in this plot.
        plot_rows = defined if name == "difference" else rows
        plots.append(([ForestSection(title, plot_rows)], AxisScale("", *scale[1:])))
    return stack_forests(plots, profile)


def _measure_row(line: TableRow, name: str, say: FormatFunction) -> ForestRow:
    value, low, high = (get_number(line, field) for field in (name, f"{name}_low", f"{name}_high"))
    who, reason = _name_row(line), get_text(line, "reason")
    title = (
        f"{who}: {name} {say(value)}, 95% interval: {format_interval(low, high, say)}, {get_count(line, 'items')} items"
    )
    # The paper has no values for the difference in kappa.
    published = get_number(line, f"published_{name}") if name != "difference" else None
    title += f"; published: {say(published)}" if published is not None else ""
    title += f" ({reason})" if reason and (value is None or few_items_note(reason)) else ""
    return ForestRow(
        who,
        value,
        low,
        high,
        say(value) + _format_ends(low, high, say) + few_items_note(reason),
        title,
        tone_of_kind(get_text(line, "kind")),
        published=published,
    )


def describe_human_model(document: Document) -> str:
    parts = [
        f"{_name_row(line)} {format_percent(get_number(line, 'agreement'))}, kappa {format_two_decimals(get_number(line, 'kappa'))}"
        for line in tables.get_rows(document, "human_model")
    ]
    return f"Agreement with the raters: {join_parts(parts)}."


def draw_contrasts(document: Document, profile: FigureSize) -> AnyChart:
    """Draw a section per family, with a row per difference of shares or areas that has an interval. d' is only in the table.

    If not all contrasts fit, each family is given a share of the rows, and its heading states how many contrasts are drawn.
    """
    all_lines, drawn = tables.get_rows(document, "contrasts"), _list_drawable(document)
    families = tables.list_distinct(drawn, "family")
    by_family = [[line for line in drawn if get_text(line, "family") == family] for family in families]
    selected = [
        _select_contrasts(lines, share)
        for lines, share in zip(by_family, share_rows([len(lines) for lines in by_family]), strict=True)
    ]
    sections = [
        ForestSection(_family_heading(family, len(lines), all_lines), [_contrast_row(line) for line in lines])
        for family, lines in zip(families, selected, strict=True)
    ]
    rows = [row for section in sections for row in section.rows]
    scale = make_scale("First less second", rows, -0.2, 0.2)
    note = f"{len(rows):,} of {len(all_lines):,} contrasts are shown; the table and the CSV contain all."
    return draw_forest(sections, scale, profile, more=note if len(rows) < len(all_lines) else "")


def _select_contrasts(lines: Sequence[TableRow], share: int) -> list[TableRow]:
    """Return at most `share` contrasts of a family, in the order of the table.

    All contrasts of the first quantity are selected before any of the second.
    """
    order = tables.list_distinct(lines, "quantity")
    # Ranked by quantity, then put back into the order of the table, so that a truncated family is still readable.
    ranked = sorted(range(len(lines)), key=lambda at: order.index(get_text(lines[at], "quantity")))
    return [lines[at] for at in sorted(ranked[:share])]


def _family_heading(family: str, drawn: int, every: Sequence[TableRow]) -> str:
    """Return the heading of a family, with the number of drawn contrasts unless all are drawn."""
    size = sum(get_text(line, "family") == family for line in every)
    return f"{family.capitalize()}{f': {drawn} of {size}' if drawn < size else ''}"


def has_contrasts(document: Document) -> bool:
    return bool(_list_drawable(document))


def describe_contrasts(document: Document) -> str:
    lines = _list_drawable(document)
    families = [get_text(line, "family") for line in lines]
    # The sentence has only the first few contrasts, so each family should be among them.
    # The first contrast of each family, then the others.
    order = sorted(range(len(lines)), key=lambda at: families[at] in families[:at])
    parts = [
        f"{_describe_pair(line)}: {format_signed(get_number(line, 'difference'))}{_format_ends(get_number(line, 'low'), get_number(line, 'high'), format_signed)}"
        for line in (lines[at] for at in order)
    ]
    return f"Differences: {join_parts(parts)}."


def _list_drawable(document: Document) -> list[TableRow]:
    lines = tables.get_rows(document, "contrasts")
    # d' has a different unit from differences of shares, so it cannot be drawn on the same axis.
    return [line for line in lines if get_number(line, "low") is not None and get_text(line, "quantity") != "d'"]


def _describe_pair(line: TableRow) -> str:
    """Return the contrast as text. If both names begin alike, up to a colon or comma, the second name omits this
    part.
    """
    first, second = get_text(line, "first"), get_text(line, "second")
    for mark in (": ", ", "):
        shared, separator, rest = second.rpartition(mark)
        # The common part is removed only where both texts have it, so that the shorter text is not ambiguous.
        if separator and first.startswith(shared + mark):
            second = rest
    return f"{first} less {second}, {get_text(line, 'quantity')}"


def _contrast_row(line: TableRow) -> ForestRow:
    value, low, high, p = (get_number(line, name) for name in ("difference", "low", "high", "p_holm"))
    is_significant = p is not None and p < LEVEL
    title = f"{_describe_pair(line)}: {format_signed(value)}, 95% interval: {format_interval(low, high, format_signed)}"
    title += f", {get_count(line, 'items')} items, {get_count(line, 'raters')} raters"
    title += f", Holm's p {p:.3f}" if p is not None else ""
    title += f" ({get_text(line, 'reason')})" if get_text(line, "reason") else ""
    value_text = format_signed(value) + _format_ends(low, high, format_signed) + (" *" if is_significant else "")
    return ForestRow(_describe_pair(line), value, low, high, value_text, title, "orange" if is_significant else "blue")


def draw_misses(document: Document, profile: FigureSize) -> AnyChart:
    """Draw sections for all errors of each type, for the false alarms, and for each kind of error.

    Each section has a row for all raters together and a row for each model.
    """
    lines = _list_combined(document)
    keys = dict.fromkeys((get_text(line, "error"), get_spaced(line, "error_kind")) for line in lines)
    # False alarms come after all errors of a type, because they are compared with those; single kinds follow.
    ordered = sorted(keys, key=lambda key: (bool(key[1]), key[0] == "none"))
    sections = [
        ForestSection(
            _name_error(*key),
            [
                _detection_row(line)
                for line in lines
                if (get_text(line, "error"), get_spaced(line, "error_kind")) == key
            ],
        )
        for key in ordered
    ]
    return draw_forest(sections, make_share_scale("Rated as an error"), profile)


def _list_combined(document: Document) -> list[TableRow]:
    """Return the table rows of all raters together and of models."""
    lines = tables.get_rows(document, "misses")
    # The first row combines all raters, whatever its name is in this study.
    together = get_text(lines[0], "who") if lines else ""
    return [line for line in lines if get_text(line, "who") == together or get_text(line, "kind") in tables.MACHINES]


def _name_error(error: str, kind: str) -> str:
    if error == "none":
        return "No error: false alarms"
    name = f"{error} error".capitalize() if error else "Error"
    return f"{name}: {kind}" if kind else f"{name}s: detected"


def _detection_row(line: TableRow) -> ForestRow:
    recall, low, high = (get_number(line, name) for name in ("recall", "low", "high"))
    who, detected, n = _name_row(line), get_count(line, "caught"), get_count(line, "n")
    what = "false alarms" if get_text(line, "error") == "none" else "detected"
    title = f"{who}: {format_percent(recall)} {what}, {detected} of {n}, 95% interval: {format_interval(low, high)}"
    return ForestRow(
        who,
        recall,
        low,
        high,
        f"{format_percent(recall)} ({detected}/{n})",
        title,
        tone_of_kind(get_text(line, "kind")),
    )


def describe_misses(document: Document) -> str:
    lines = _list_combined(document)
    parts = [
        f"{_name_row(line)}, {_name_error(get_text(line, 'error'), get_spaced(line, 'error_kind')).lower()} "
        f"{format_percent(get_number(line, 'recall'))} ({get_count(line, 'caught')} of {get_count(line, 'n')})"
        for line in lines
    ]
    return f"Rated as an error: {join_parts(parts)}."


def draw_fractions(document: Document, profile: FigureSize) -> AnyChart:
    yes, _ = tables.verdict_words(document)
    rows = [_fraction_row(line, yes) for line in tables.get_rows(document, "fractions")]
    return draw_forest([ForestSection("", rows)], make_share_scale(f"Rated {yes}"), profile, bars=True)


def _fraction_row(line: TableRow, yes: str) -> ForestRow:
    share, low, high = (get_number(line, name) for name in ("share", "low", "high"))
    who, k, n = _name_row(line), get_count(line, "k"), get_count(line, "n")
    title = f"{who}: rates {format_percent(share)} {yes}, {k} of {n}, 95% interval: {format_interval(low, high)}"
    published = get_number(line, "published")
    title += f"; published: {format_percent(published)}" if published is not None else ""
    tone = tone_of_kind(get_text(line, "kind"))
    return ForestRow(who, share, low, high, f"{format_percent(share)} ({k}/{n})", title, tone, published=published)


def describe_fractions(document: Document) -> str:
    parts = [
        f"{_name_row(line)} {format_percent(get_number(line, 'share'))} ({get_count(line, 'k')} of {get_count(line, 'n')})"
        for line in tables.get_rows(document, "fractions")
    ]
    return f"Rated {tables.verdict_words(document)[0]}: {join_parts(parts)}."


def _format_ends(low: float | None, high: float | None, say: FormatFunction) -> str:
    return "" if low is None or high is None else f" ({format_interval(low, high, say)})"
