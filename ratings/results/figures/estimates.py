"""Figures with one row per estimate and its interval: rates, agreement, contrasts, raters beside models, expected precision."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from ratings.results.figures import tables
from ratings.results.figures.forest import (
    ForestRow,
    ForestSection,
    draw_forest,
    make_scale,
    make_share_scale,
    share_rows,
    stack_forests,
)
from ratings.results.figures.theme import Drawing, FigureSize, Spec

LEVEL = 0.05  # Holm-adjusted p below which a contrast is orange with a star
_TOGETHER = ("people", "simulated", "people and simulated")  # kinds of rows that combine all raters
_TONES = dict.fromkeys(_TOGETHER, "blue") | {"machine": "orange", "classifier": "orange", "checker": "green"}
_MEASURES: Mapping[str, tuple[str, tables.FormatFunction]] = {
    "agreement": ("Agreement", tables.format_percent),
    "kappa": ("Cohen's kappa", tables.format_two_decimals),
    "difference": ("Difference in kappa from the raters' own", tables.format_two_decimals),
}
_QUANTITIES = {"rate": "Rate", "kappa": "Kappa", "auc": "AUC"}
_NOT_ESTIMABLE = "not estimable yet"


def _name_row(line: tables.TableRow) -> str:
    """Return the name of a row; in rows that combine raters who are not all people, the kind of raters is added."""
    name, kind = line.text("who"), line.text("kind")
    return f"{name} ({kind})" if kind in _TOGETHER and kind != "people" else name


def _tone_of_kind(line: tables.TableRow) -> str:
    return _TONES.get(line.text("kind"), "slate")


def _tone_of_error(line: tables.TableRow) -> str:
    """Return orange for sources with a planted error, blue for the others."""
    return "orange" if line.text("error") in tables.PLANTED else "blue"


def _make_share_row(
    line: tables.TableRow, label: str, tone: str, what: str, share_column: str = "rate", k_column: str = "k"
) -> ForestRow:
    """Return a row for k of n; `what` says in its title what the share is, with {share}, {k} and {n}."""
    share, low, high, published = line.numbers(share_column, "low", "high", "published")
    k, n, reason = line.count(k_column), line.count("n"), line.text("reason")
    title = f"{label}: {what.format(share=tables.format_percent(share), k=k, n=n)}, 95% interval: {tables.format_interval(low, high)}"
    title += f"; published: {tables.format_percent(published)}" if published is not None else ""
    title += f" ({reason})" if reason else ""
    return ForestRow(
        label, share, low, high, f"{tables.format_percent(share)} ({k}/{n})", title, tone, published=published
    )


def _describe_rate(line: tables.TableRow, label: str = "") -> str:
    rate, low, high = line.numbers("rate", "low", "high")
    ends = f", {tables.format_interval(low, high)}" if low is not None else ""
    name = label or line.text("source")
    return f"{name} {tables.format_percent(rate)} ({line.count('k')} of {line.count('n')}{ends})"


def _format_estimate(line: tables.TableRow, column: str, say: tables.FormatFunction) -> str:
    """Return a value and, if it has one, its interval."""
    value, low, high = line.numbers(column, "low", "high")
    return say(value) + tables.format_ends(low, high, say)


def _make_rate_row(line: tables.TableRow, label: str, tone: str, yes: str) -> ForestRow:
    return _make_share_row(line, label, tone, f"{{share}} rated {yes}, {{k}} of {{n}} ratings")


def _draw_rates(document: tables.Document, profile: FigureSize) -> Spec:
    """Draw a bar per source (the paper's Fig. 3a)."""
    yes, _ = tables.verdict_words(document)
    lines = tables.get_rows(document, "rates")
    rows = [_make_rate_row(line, line.text("source"), _tone_of_error(line), yes) for line in lines]
    return draw_forest([ForestSection("", rows)], make_share_scale(f"Rated {yes}"), profile, bars=True)


def _draw_grouped_rates(document: tables.Document, profile: FigureSize, name: str) -> Spec:
    """Draw a section per group with a row per source; no headings if each group has one source only."""
    yes, _ = tables.verdict_words(document)
    tones = {line.text("source"): _tone_of_error(line) for line in tables.get_rows(document, "rates")}
    lines = tables.get_rows(document, name)
    groups = tables.group_rows(lines, partial(_name_group, name=name))

    def make_row(line: tables.TableRow, label: str) -> ForestRow:
        return _make_rate_row(line, label, tones.get(line.text("source"), "blue"), yes)

    # One source per group: headings would repeat what the rows say.
    if all(len(some) == 1 for some in groups.values()):
        single_source = len(tables.list_distinct(lines, "source")) == 1
        rows = [make_row(line, _name_grouped(line, name, single_source)) for (line,) in groups.values()]
        sections = [ForestSection("", rows)]
    else:
        sections = [
            ForestSection(group, [make_row(line, line.text("source") or "all") for line in some])
            for group, some in groups.items()
        ]
    return draw_forest(sections, make_share_scale(f"Rated {yes}"), profile)


def _name_group(line: tables.TableRow, name: str) -> str:
    return line.words("group") if name == "rates_by_error_kind" else line.text("group")


def _name_grouped(line: tables.TableRow, name: str, single_source: bool = False) -> str:
    group, source = _name_group(line, name), line.text("source")
    return group if single_source or not source or group == source else f"{group}, {source}"


def _list_located(document: tables.Document) -> list[tables.TableRow]:
    """Return the defined rows of all raters together."""
    # Single raters have too few detected errors for an interval of their own.
    lines = [line for line in tables.get_rows(document, "localisation") if line.text("who") == "all raters"]
    return [line for line in lines if line.number("rate") is not None]


def _draw_localisation(document: tables.Document, profile: FigureSize) -> Spec:
    """Draw a bar per error source: the share of detected errors whose mark hits the planted row."""
    what = "{share} located, {k} of {n} detected errors"
    rows = [_make_share_row(line, line.text("source"), "orange", what) for line in _list_located(document)]
    return draw_forest([ForestSection("", rows)], make_share_scale("Detected errors located"), profile, bars=True)


def _draw_agreement(document: tables.Document, profile: FigureSize) -> Spec:
    """Draw a section for all sources together, then one per source, each with a row per defined coefficient."""
    all_lines = tables.get_rows(document, "agreement")
    # An undefined coefficient has no place on the axis; the figure states how many there are, the table why.
    lines = [line for line in all_lines if line.number("value") is not None]
    sections = [
        ForestSection(
            source.capitalize() if source == tables.POOLED else source, list(map(_make_coefficient_row, some))
        )
        for source, some in tables.group_rows(lines, "source").items()
    ]
    scale = make_scale("Coefficient", [row for section in sections for row in section.rows])
    return draw_forest(sections, scale, profile, undefined=len(all_lines) - len(lines))


def _make_coefficient_row(line: tables.TableRow) -> ForestRow:
    say = tables.format_two_decimals
    value, low, high, outer_low, outer_high = line.numbers("value", "low", "high", "low_new", "high_new")
    name, reason = line.text("coefficient"), line.text("reason")
    title = f"{name}: {say(value)}, these raters: {tables.format_interval(low, high, say)}"
    title += f", new raters: {tables.format_interval(outer_low, outer_high, say)}"
    title += f", {line.count('items')} items, {line.count('raters')} raters"
    title += f" ({reason})" if reason else ""
    value_text = say(value) + tables.format_ends(low, high, say) + _note_few_items(reason)
    outer = None if outer_low is None or outer_high is None else (outer_low, outer_high)
    return ForestRow(name, value, low, high, value_text, title, outer=outer)


def _note_few_items(reason: str) -> str:
    return " (few items)" if reason.startswith("few items") else ""


def _describe_agreement(document: tables.Document) -> str:
    # Only the first source: a sentence with all sources is too long to be read aloud.
    source, lines = next(iter(tables.group_rows(tables.get_rows(document, "agreement"), "source").items()))
    say = tables.format_two_decimals
    parts = [f"{line.text('coefficient')} {_format_estimate(line, 'value', say)}" for line in lines]
    return f"Agreement, {source}: {tables.join_parts(parts)}."


def _draw_human_model(document: tables.Document, profile: FigureSize) -> Spec:
    """Draw three plots with the same rows (the paper's Table 1): agreement, kappa, and difference from the raters' kappa."""
    plots = []
    for name, (title, say) in _MEASURES.items():
        rows = [_make_measure_row(line, name, say) for line in tables.get_rows(document, "human_model")]
        defined = [row for row in rows if row.value is not None]
        if not defined:
            continue
        scale = make_share_scale("")
        if say is not tables.format_percent:
            # Agreement is a share from 0 to 1; differences are small and need a scale of their own.
            scale = make_scale("", defined, *((-0.2, 0.2) if name == "difference" else ()))
        # Rows of the raters themselves have no difference, and would be empty rows in this plot.
        plots.append(([ForestSection(title, defined if name == "difference" else rows)], scale))
    return stack_forests(plots, profile)


def _make_measure_row(line: tables.TableRow, name: str, say: tables.FormatFunction) -> ForestRow:
    # The paper has no values for the difference in kappa.
    value, low, high, published = line.numbers(name, f"{name}_low", f"{name}_high", f"published_{name}")
    who, reason = _name_row(line), line.text("reason")
    title = f"{who}: {name} {say(value)}, 95% interval: {tables.format_interval(low, high, say)}"
    title += f", {line.count('items')} items"
    title += f"; published: {say(published)}" if published is not None else ""
    title += f" ({reason})" if reason and (value is None or _note_few_items(reason)) else ""
    value_text = say(value) + tables.format_ends(low, high, say) + _note_few_items(reason)
    return ForestRow(who, value, low, high, value_text, title, _tone_of_kind(line), published=published)


def _describe_human_model(line: tables.TableRow) -> str:
    kappa = tables.format_two_decimals(line.number("kappa"))
    return f"{_name_row(line)} {tables.format_percent(line.number('agreement'))}, kappa {kappa}"


def _draw_contrasts(document: tables.Document, profile: FigureSize) -> Spec:
    """Draw a section per family with its share of the rows, without d' and contrasts that have no interval."""
    all_lines, families = tables.get_rows(document, "contrasts"), tables.group_rows(_list_drawable(document), "family")
    shares = share_rows([len(lines) for lines in families.values()])
    sections = []
    for (family, lines), share in zip(families.items(), shares, strict=True):
        size = sum(line.text("family") == family for line in all_lines)
        rows = [_make_contrast_row(line) for line in _select_contrasts(lines, share)]
        heading = f"{family.capitalize()}{f': {len(rows)} of {size}' if len(rows) < size else ''}"
        sections.append(ForestSection(heading, rows))
    rows = [row for section in sections for row in section.rows]
    scale = make_scale("First less second", rows, -0.2, 0.2)
    note = f"{len(rows):,} of {len(all_lines):,} contrasts are shown; the table and the CSV contain all."
    return draw_forest(sections, scale, profile, more=note if len(rows) < len(all_lines) else "")


def _list_drawable(document: tables.Document) -> list[tables.TableRow]:
    lines = tables.get_rows(document, "contrasts")
    # d' has a different unit from differences of shares, so it cannot be drawn on the same axis.
    return [line for line in lines if line.number("low") is not None and line.text("quantity") != "d'"]


def _select_contrasts(lines: Sequence[tables.TableRow], share: int) -> list[tables.TableRow]:
    """Return at most `share` contrasts of a family in the order of the table, those of the first quantity before others."""
    order = tables.list_distinct(lines, "quantity")
    # Ranked by quantity, then put back into the order of the table, so that a truncated family is still readable.
    ranked = sorted(range(len(lines)), key=lambda at: order.index(lines[at].text("quantity")))
    return [lines[at] for at in sorted(ranked[:share])]


def _name_contrast(line: tables.TableRow) -> str:
    """Return the contrast as text. If both names begin alike, up to a colon or comma, the second omits this part."""
    first, second = line.text("first"), line.text("second")
    for mark in (": ", ", "):
        shared, separator, rest = second.rpartition(mark)
        # The common part is removed only where both texts have it, so that the shorter text is not ambiguous.
        if separator and first.startswith(shared + mark):
            second = rest
    return f"{first} less {second}, {line.text('quantity')}"


def _make_contrast_row(line: tables.TableRow) -> ForestRow:
    value, low, high, p = line.numbers("difference", "low", "high", "p_holm")
    is_significant = p is not None and p < LEVEL
    label, say, reason = _name_contrast(line), tables.format_signed, line.text("reason")
    title = f"{label}: {say(value)}, 95% interval: {tables.format_interval(low, high, say)}"
    title += f", {line.count('items')} items, {line.count('raters')} raters"
    title += f", Holm's p {p:.3f}" if p is not None else ""
    title += f" ({reason})" if reason else ""
    value_text = say(value) + tables.format_ends(low, high, say) + (" *" if is_significant else "")
    return ForestRow(label, value, low, high, value_text, title, "orange" if is_significant else "blue")


def _list_described(document: tables.Document) -> list[tables.TableRow]:
    lines = _list_drawable(document)
    # The sentence has only the first few contrasts, so the first of each family comes before the others.
    firsts = [some[0] for some in tables.group_rows(lines, "family").values()]
    return firsts + [line for line in lines if not any(line is first for first in firsts)]


def _describe_contrast(line: tables.TableRow) -> str:
    return f"{_name_contrast(line)}: {_format_estimate(line, 'difference', tables.format_signed)}"


def _list_detections(document: tables.Document) -> list[tables.TableRow]:
    """Return the table rows of all raters together and of models."""
    lines = tables.get_rows(document, "misses")
    # The first row combines all raters, whatever its name is in this study.
    together = lines[0].text("who") if lines else ""
    return [line for line in lines if line.text("who") == together or line.text("kind") in tables.MACHINES]


def _draw_misses(document: tables.Document, profile: FigureSize) -> Spec:
    """Draw sections for all errors of each type, the false alarms, and each kind of error: all raters, then each model."""
    groups = tables.group_rows(_list_detections(document), _name_error)
    # False alarms come after all errors of a type, because they are compared with those; single kinds follow.
    ordered = sorted(
        groups.items(), key=lambda group: (bool(group[1][0].text("error_kind")), group[1][0].text("error") == "none")
    )
    sections = [ForestSection(heading, list(map(_make_detection_row, lines))) for heading, lines in ordered]
    return draw_forest(sections, make_share_scale("Rated as an error"), profile)


def _name_error(line: tables.TableRow) -> str:
    error, kind = line.text("error"), line.words("error_kind")
    if error == "none":
        return "No error: false alarms"
    name = f"{error} error".capitalize() if error else "Error"
    return f"{name}: {kind}" if kind else f"{name}s: detected"


def _make_detection_row(line: tables.TableRow) -> ForestRow:
    what = "{share} " + ("false alarms" if line.text("error") == "none" else "detected") + ", {k} of {n}"
    return _make_share_row(line, _name_row(line), _tone_of_kind(line), what, "recall", "caught")


def _describe_detection(line: tables.TableRow) -> str:
    recall, of = tables.format_percent(line.number("recall")), f"({line.count('caught')} of {line.count('n')})"
    return f"{_name_row(line)}, {_name_error(line).lower()} {recall} {of}"


def _draw_fractions(document: tables.Document, profile: FigureSize) -> Spec:
    yes, _ = tables.verdict_words(document)
    what = f"rates {{share}} {yes}, {{k}} of {{n}}"
    lines = tables.get_rows(document, "fractions")
    rows = [_make_share_row(line, _name_row(line), _tone_of_kind(line), what, "share") for line in lines]
    return draw_forest([ForestSection("", rows)], make_share_scale(f"Rated {yes}"), profile, bars=True)


def _describe_fraction(line: tables.TableRow) -> str:
    share = tables.format_percent(line.number("share"))
    return f"{_name_row(line)} {share} ({line.count('k')} of {line.count('n')})"


def _draw_precision(document: tables.Document, profile: FigureSize) -> Spec:
    """Draw a section per quantity and source, with a row for each size of the study."""
    groups = _list_quantities(document)
    sections = [ForestSection(heading, list(map(_make_precision_row, some))) for heading, some in groups]
    rows = [row for section in sections for row in section.rows]
    top = max(row.value or 0.0 for row in rows) or 0.1  # a scale needs an extent
    return draw_forest(sections, make_scale("Half-width", rows, ceiling=top), profile, bars=True)


def _name_quantity(line: tables.TableRow) -> str:
    what, source = line.text("what"), line.text("source")
    return f"{_QUANTITIES.get(what, what)}, {source}" if source else _QUANTITIES.get(what, what)


def _make_precision_row(line: tables.TableRow) -> ForestRow:
    # The half-width is undefined while there are too few raters or items; the row still shows the size of the study.
    half, is_current = line.number("half_width"), bool(line.number("now"))
    size = _describe_size(line, ", ")
    value_text = f"±{tables.format_two_decimals(half)}" if half is not None else _NOT_ESTIMABLE
    title = line.text("said") or f"{size}: {value_text}"
    label, tone = (f"{size} (now)", "blue") if is_current else (size, "slate")
    return ForestRow(label, half, None, None, value_text, title, tone)


def _describe_size(line: tables.TableRow, between: str) -> str:
    raters, items = line.count("raters"), line.count("items")
    return f"{raters} rater{'s' * (raters != 1)}{between}{items} item{'s' * (items != 1)}"


def _list_quantities(document: tables.Document) -> Iterable[tuple[str, Sequence[tables.TableRow]]]:
    return tables.group_rows(tables.get_rows(document, "precision"), _name_quantity).items()


def _describe_quantity(group: tuple[str, Sequence[tables.TableRow]]) -> str:
    """Return the current and the best value of a quantity."""
    heading, lines = group
    current = next((line for line in lines if line.number("now")), lines[0])
    half, reason = current.number("half_width"), current.text("said")
    now = f"±{tables.format_two_decimals(half)} now" if half is not None else _NOT_ESTIMABLE
    text = f"{heading} {now}" + (f" ({reason})" if half is None and reason else "")
    estimable = [line for line in lines if line.number("half_width") is not None]
    if not estimable:
        return text
    best = min(estimable, key=lambda line: line.number("half_width") or 0.0)
    return f"{text}, {tables.format_two_decimals(best.number('half_width'))} with {_describe_size(best, ' and ')}"


def _make_grouped_drawing(name: str) -> Drawing:
    describe = tables.describe_rows(
        "Rated {yes}", name, lambda line: _describe_rate(line, _name_grouped(line, name)), most=4
    )
    return Drawing(partial(_draw_grouped_rates, name=name), describe)


RATES = Drawing(_draw_rates, tables.describe_rows("Rated {yes}", "rates", _describe_rate))
RATES_BY_EXPERIMENT = _make_grouped_drawing("rates_by_experiment")
RATES_BY_ACTION = _make_grouped_drawing("rates_by_action")
RATES_BY_ERROR_KIND = _make_grouped_drawing("rates_by_error_kind")
LOCALISATION = Drawing(
    _draw_localisation,
    tables.describe_rows("Detected errors located", _list_located, _describe_rate),
    lambda document: bool(_list_located(document)),
)
AGREEMENT = Drawing(
    _draw_agreement, _describe_agreement, lambda document: tables.has_number(document, "agreement", "value")
)
HUMAN_MODEL = Drawing(
    _draw_human_model,
    tables.describe_rows("Agreement with the raters", "human_model", _describe_human_model),
    lambda document: tables.has_number(document, "human_model", *_MEASURES),
)
CONTRASTS = Drawing(
    _draw_contrasts,
    tables.describe_rows("Differences", _list_described, _describe_contrast),
    lambda document: bool(_list_drawable(document)),
)
MISSES = Drawing(_draw_misses, tables.describe_rows("Rated as an error", _list_detections, _describe_detection))
FRACTIONS = Drawing(_draw_fractions, tables.describe_rows("Rated {yes}", "fractions", _describe_fraction))
PRECISION = Drawing(_draw_precision, tables.describe_rows("Half-widths", _list_quantities, _describe_quantity, most=4))
