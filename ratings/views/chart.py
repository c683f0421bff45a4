"""The bars of a study's page: rates with their intervals, as numbers that a template draws into SVG."""

from collections.abc import Sequence
from typing import NamedTuple

from ratings.reports import SourceLine

_ROW, _BAR, _TOP, _FOOT = 40.0, 20.0, 6.0, 30.0


class Tick(NamedTuple):
    x: float
    label: str


class Bar(NamedTuple):
    """One source. `low` and `high` are None where the rate is undefined."""

    label: str
    planted: bool
    y: float
    middle: float
    width: float
    dot: float
    low: float | None
    high: float | None
    text: str
    text_x: float
    label_y: float


class Chart(NamedTuple):
    """Everything in units of the viewBox."""

    width: float
    height: float
    left: float
    base: float
    ticks: list[Tick]
    bars: list[Bar]
    bar_height: float


def source_name(line: SourceLine) -> str:
    """What a source is called wherever it shows."""
    return line.source if line.perturbation == "none" else f"{line.source}, {line.perturbation} error"


def wide(lines: Sequence[SourceLine]) -> Chart:
    """For a screen of 700 pixels and more: names to the left."""
    return _chart(lines, width=760, left=190, right=160, stacked=False)


def narrow(lines: Sequence[SourceLine]) -> Chart:
    """For a phone: names above the bars."""
    return _chart(lines, width=340, left=4, right=110, stacked=True)


def summary(lines: Sequence[SourceLine], word: str) -> str:
    """The chart in one sentence, with its numbers."""
    said = [f"{source_name(line)} {_share(line)}" for line in lines]
    return f"Rated {word}: {'; '.join(said)}." if said else f"Nothing was rated {word} or otherwise."


def _chart(lines: Sequence[SourceLine], width: float, left: float, right: float, stacked: bool) -> Chart:
    row = _ROW + 18 if stacked else _ROW
    base = _TOP + row * len(lines)
    span = width - left - right

    def at(share: float) -> float:
        return round(left + share * span, 1)

    bars = []
    for index, line in enumerate(lines):
        middle = _TOP + row * index + (row / 2 + 10 if stacked else row / 2)
        value, interval = line.rate.value, (line.rate.low, line.rate.high)
        low, high = (None if end is None else at(end) for end in interval)
        dot = at(value or 0)
        end = max(dot, high or 0)
        bars.append(
            Bar(
                label=source_name(line),
                planted=line.perturbation != "none",
                y=middle - _BAR / 2,
                middle=middle,
                width=round(dot - left, 1),
                dot=dot,
                low=low,
                high=high,
                text=_share(line),
                text_x=end + 9,
                label_y=middle - _BAR / 2 - 6 if stacked else middle,
            )
        )
    ticks = [Tick(at(part / 4), f"{part * 25}%") for part in range(5)]
    return Chart(width, base + _FOOT, left, base, ticks, bars, _BAR)


def _share(line: SourceLine) -> str:
    """As "91% (373 of 412)"."""
    if line.rate.value is None:
        return "no ratings"
    return f"{line.rate.value:.0%} ({line.rate.k} of {line.rate.n})"
