"""Rates of plausible ratings: by source (the paper's Fig. 3a), experiment, action and kind of error."""

from collections.abc import Mapping

from ratings.results.figures import tables
from ratings.results.figures.forest import forest, shares
from ratings.results.figures.placing import Row, Section
from ratings.results.figures.tables import Document, Line, number, text, words
from ratings.results.figures.theme import AnyChart, Profile
from ratings.results.figures.wording import interval, listed, percent


def by_source(document: Document, profile: Profile) -> AnyChart:
    yes, _ = tables.verdict_words(document)
    rows = [_row(line, text(line, "source"), _tone(line), yes) for line in tables.rows(document, "rates")]
    return forest([Section("", rows)], shares(f"Rated {yes}"), profile, bars=True)


def say_by_source(document: Document) -> str:
    yes, _ = tables.verdict_words(document)
    lines = tables.rows(document, "rates")
    return f"Rated {yes}: {listed(_said(line, text(line, 'source')) for line in lines)}."


def grouped(document: Document, profile: Profile, name: str) -> AnyChart:
    """Draw a section per group with a row per source; no headings if each group has one source only."""
    yes, _ = tables.verdict_words(document)
    tones, lines = tones_of_sources(document), tables.rows(document, name)
    groups: dict[str, list[Line]] = {}
    for line in lines:
        groups.setdefault(_group(line, name), []).append(line)
    # One source per group: headings would repeat what the rows say.
    if all(len(some) == 1 for some in groups.values()):
        single_source = len({text(line, "source") for line in lines}) == 1
        rows = [
            _row(line, _joined(line, single_source, name), tones.get(text(line, "source"), "blue"), yes)
            for some in groups.values()
            for line in some
        ]
        sections = [Section("", rows)]
    else:
        sections = [
            Section(
                group,
                [
                    _row(line, text(line, "source") or "all", tones.get(text(line, "source"), "blue"), yes)
                    for line in some
                ],
            )
            for group, some in groups.items()
        ]
    return forest(sections, shares(f"Rated {yes}"), profile)


def say_grouped(document: Document, name: str) -> str:
    yes, _ = tables.verdict_words(document)
    lines = tables.rows(document, name)
    return f"Rated {yes}: {listed((_said(line, _joined(line, False, name)) for line in lines), most=4)}."


def _located(document: Document) -> list[Line]:
    """Return the defined rows of all raters together."""
    # Single raters have too few detected errors for an interval of their own.
    lines = [line for line in tables.rows(document, "localisation") if text(line, "who") == "all raters"]
    return [line for line in lines if number(line, "rate") is not None]


def localisation_known(document: Document) -> bool:
    return bool(_located(document))


def localisation(document: Document, profile: Profile) -> AnyChart:
    """Draw a bar per error source: the share of detected errors whose mark hits the planted row."""
    rows = [_located_row(line) for line in _located(document)]
    return forest([Section("", rows)], shares("Detected errors located"), profile, bars=True)


def _located_row(line: Line) -> Row:
    rate, low, high = (number(line, name) for name in ("rate", "low", "high"))
    k, n, label, reason = tables.count(line, "k"), tables.count(line, "n"), text(line, "source"), text(line, "reason")
    title = f"{label}: {percent(rate)} located, {k} of {n} detected errors, 95% interval: {interval(low, high)}"
    title += f" ({reason})" if reason else ""
    return Row(label, rate, low, high, f"{percent(rate)} ({k}/{n})", title, "orange")


def say_localisation(document: Document) -> str:
    return f"Detected errors located: {listed([_said(line, text(line, 'source')) for line in _located(document)])}."


def tones_of_sources(document: Document) -> Mapping[str, str]:
    """Return orange for sources with a planted error, blue for the others."""
    return {text(line, "source"): _tone(line) for line in tables.rows(document, "rates")}


def _group(line: Line, name: str) -> str:
    return words(line, "group") if name == "rates_by_error_kind" else text(line, "group")


def _joined(line: Line, one: bool, name: str) -> str:
    group, source = _group(line, name), text(line, "source")
    return group if one or not source or group == source else f"{group}, {source}"


def _tone(line: Line) -> str:
    return "orange" if text(line, "error") in tables.PLANTED else "blue"


def _row(line: Line, label: str, tone: str, yes: str) -> Row:
    rate, low, high = (number(line, name) for name in ("rate", "low", "high"))
    k, n = tables.count(line, "k"), tables.count(line, "n")
    published, reason = number(line, "published"), text(line, "reason")
    title = f"{label}: {percent(rate)} rated {yes}, {k} of {n} ratings, 95% interval: {interval(low, high)}"
    title += f"; published: {percent(published)}" if published is not None else ""
    title += f" ({reason})" if reason else ""
    return Row(label, rate, low, high, f"{percent(rate)} ({k}/{n})", title, tone, published=published)


def _said(line: Line, label: str) -> str:
    low, high = number(line, "low"), number(line, "high")
    ends = f", {interval(low, high)}" if low is not None else ""
    return f"{label} {percent(number(line, 'rate'))} ({tables.count(line, 'k')} of {tables.count(line, 'n')}{ends})"
