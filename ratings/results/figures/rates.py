"""Rates of plausible ratings: by source (the paper's Fig. 3a), experiment, action and kind of error."""

from collections.abc import Mapping

from ratings.results.figures import tables
from ratings.results.figures.forest import ForestRow, ForestSection, draw_forest, make_share_scale
from ratings.results.figures.tables import (
    Document,
    TableRow,
    format_interval,
    format_percent,
    get_number,
    get_spaced,
    get_text,
    join_parts,
)
from ratings.results.figures.theme import AnyChart, FigureSize


def draw_by_source(document: Document, profile: FigureSize) -> AnyChart:
    yes, _ = tables.verdict_words(document)
    rows = [
        _rate_row(line, get_text(line, "source"), _tone_of_line(line), yes)
        for line in tables.get_rows(document, "rates")
    ]
    return draw_forest([ForestSection("", rows)], make_share_scale(f"Rated {yes}"), profile, bars=True)


def describe_by_source(document: Document) -> str:
    yes, _ = tables.verdict_words(document)
    lines = tables.get_rows(document, "rates")
    return f"Rated {yes}: {join_parts(_describe_rate(line, get_text(line, 'source')) for line in lines)}."


def draw_grouped(document: Document, profile: FigureSize, name: str) -> AnyChart:
    """Draw a section per group with a row per source; no headings if each group has one source only."""
    yes, _ = tables.verdict_words(document)
    tones, lines = tones_of_sources(document), tables.get_rows(document, name)
    groups: dict[str, list[TableRow]] = {}
    for line in lines:
        groups.setdefault(_group_label(line, name), []).append(line)
    # One source per group: headings would repeat what the rows say.
    if all(len(some) == 1 for some in groups.values()):
        single_source = len({get_text(line, "source") for line in lines}) == 1
        rows = [
            _rate_row(line, _join_label(line, single_source, name), tones.get(get_text(line, "source"), "blue"), yes)
            for some in groups.values()
            for line in some
        ]
        sections = [ForestSection("", rows)]
    else:
        sections = [
            ForestSection(
                group,
                [
                    _rate_row(line, get_text(line, "source") or "all", tones.get(get_text(line, "source"), "blue"), yes)
                    for line in some
                ],
            )
            for group, some in groups.items()
        ]
    return draw_forest(sections, make_share_scale(f"Rated {yes}"), profile)


def describe_grouped(document: Document, name: str) -> str:
    yes, _ = tables.verdict_words(document)
    lines = tables.get_rows(document, name)
    return (
        f"Rated {yes}: {join_parts((_describe_rate(line, _join_label(line, False, name)) for line in lines), most=4)}."
    )


def _list_located(document: Document) -> list[TableRow]:
    """Return the defined rows of all raters together."""
    # Single raters have too few detected errors for an interval of their own.
    lines = [line for line in tables.get_rows(document, "localisation") if get_text(line, "who") == "all raters"]
    return [line for line in lines if get_number(line, "rate") is not None]


def has_localisation(document: Document) -> bool:
    return bool(_list_located(document))


def draw_localisation(document: Document, profile: FigureSize) -> AnyChart:
    """Draw a bar per error source: the share of detected errors whose mark hits the planted row."""
    rows = [_localisation_row(line) for line in _list_located(document)]
    return draw_forest([ForestSection("", rows)], make_share_scale("Detected errors located"), profile, bars=True)


def _localisation_row(line: TableRow) -> ForestRow:
    rate, low, high = (get_number(line, name) for name in ("rate", "low", "high"))
    k, n, label, reason = (
        tables.get_count(line, "k"),
        tables.get_count(line, "n"),
        get_text(line, "source"),
        get_text(line, "reason"),
    )
    title = f"{label}: {format_percent(rate)} located, {k} of {n} detected errors, 95% interval: {format_interval(low, high)}"
    title += f" ({reason})" if reason else ""
    return ForestRow(label, rate, low, high, f"{format_percent(rate)} ({k}/{n})", title, "orange")


def describe_localisation(document: Document) -> str:
    return f"Detected errors located: {join_parts([_describe_rate(line, get_text(line, 'source')) for line in _list_located(document)])}."


def tones_of_sources(document: Document) -> Mapping[str, str]:
    """Return orange for sources with a planted error, blue for the others."""
    return {get_text(line, "source"): _tone_of_line(line) for line in tables.get_rows(document, "rates")}


def _group_label(line: TableRow, name: str) -> str:
    return get_spaced(line, "group") if name == "rates_by_error_kind" else get_text(line, "group")


def _join_label(line: TableRow, one: bool, name: str) -> str:
    group, source = _group_label(line, name), get_text(line, "source")
    return group if one or not source or group == source else f"{group}, {source}"


def _tone_of_line(line: TableRow) -> str:
    return "orange" if get_text(line, "error") in tables.PLANTED else "blue"


def _rate_row(line: TableRow, label: str, tone: str, yes: str) -> ForestRow:
    rate, low, high = (get_number(line, name) for name in ("rate", "low", "high"))
    k, n = tables.get_count(line, "k"), tables.get_count(line, "n")
    published, reason = get_number(line, "published"), get_text(line, "reason")
    title = (
        f"{label}: {format_percent(rate)} rated {yes}, {k} of {n} ratings, 95% interval: {format_interval(low, high)}"
    )
    title += f"; published: {format_percent(published)}" if published is not None else ""
    title += f" ({reason})" if reason else ""
    return ForestRow(label, rate, low, high, f"{format_percent(rate)} ({k}/{n})", title, tone, published=published)


def _describe_rate(line: TableRow, label: str) -> str:
    low, high = get_number(line, "low"), get_number(line, "high")
    ends = f", {format_interval(low, high)}" if low is not None else ""
    return f"{label} {format_percent(get_number(line, 'rate'))} ({tables.get_count(line, 'k')} of {tables.get_count(line, 'n')}{ends})"
