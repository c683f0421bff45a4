"""The figure of detection by size of error: a curve for all raters together and for each model."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from ratings.results.figures import tables, theme
from ratings.results.figures.curves import Curve, CurvePlot, make_share_axis

_TABLE = "detection_by_size"
_DODGE = 0.12  # distance of the whiskers of two curves at one size, in parts of the distance of two sizes


def _list_rows(document: tables.Document) -> list[tables.TableRow]:
    """Return the rows of all raters together and of models."""
    rows = tables.get_rows(document, _TABLE)
    # The first row combines all raters, whatever its name is in this study.
    together = rows[0].text("who") if rows else ""
    return [row for row in rows if row.text("who") == together or row.text("kind") in tables.MACHINES]


def _list_sizes(rows: Sequence[tables.TableRow]) -> list[str]:
    """Return the names of the ranges from the smallest to the largest, those without a size last."""
    lowest = {row.text("error_size"): row.number("smallest") for row in rows}
    # Sorting keeps the order of the table for ranges without a size.
    return sorted(lowest, key=lambda name: (lowest[name] is None, lowest[name] or 0.0))


def _is_alone(row: tables.TableRow) -> bool:
    """Return whether the range is no part of the curve: below the detection limit, or without a size."""
    return not row.number("smallest")


def _draw_sizes(document: tables.Document, profile: theme.FigureSize) -> theme.Spec:
    rows = _list_rows(document)
    sizes, groups = _list_sizes(rows), tables.group_rows(rows, "who")
    curves = [
        Curve(_name_judge(lines[0]), "", _list_points(lines, sizes, place - (len(groups) - 1) / 2))
        for place, lines in enumerate(groups.values())
    ]
    names = ", ".join(f"'{name}'" for name in sizes)
    axis = alt.Axis(
        values=list(range(len(sizes))), labelExpr=f"[{names}][datum.value]", grid=False, labelAngle=-40, labelAlign="right",
        labelOverlap=False,
    )  # fmt: skip
    across, upright = alt.Scale(domain=[-0.5, len(sizes) - 0.5], nice=False), alt.Scale(domain=[0, 1], nice=False)
    x = alt.X("x:Q", title="Size of error", axis=axis, scale=across)
    y, low = (
        alt.Y(f"{name}:Q", title="Rated as an error", axis=make_share_axis(), scale=upright) for name in ("y", "low")
    )
    plot = CurvePlot(curves, range(len(curves)), x, y, 0.75, profile)
    intervals = [
        {**point, "curve": key}
        for key, curve in zip(plot.keys, curves, strict=True)
        for point in curve.points
        if point["low"] is not None
    ]
    rule = alt.Chart(theme.make_data(intervals)).mark_rule(strokeWidth=profile.stroke, aria=False)
    whiskers = [rule.encode(x=x, y=low, y2="high:Q", stroke=plot.stroke)] if intervals else []
    return plot.draw(before=whiskers)


def _list_points(rows: Sequence[tables.TableRow], sizes: Sequence[str], offset: float) -> list[dict[str, Any]]:
    points = []
    for row in rows:
        share, low, high = row.numbers("recall", "low", "high")
        title = f"{_name_judge(row)}, {_describe_size(row)}"
        x = sizes.index(row.text("error_size")) + offset * _DODGE
        points.append({"x": x, "y": share, "low": low, "high": high, "title": title, "alone": _is_alone(row)})
    return points


def _name_judge(row: tables.TableRow) -> str:
    who, kind = row.text("who"), row.text("kind")
    # Simulated raters must not be taken for people.
    return f"{who} ({kind})" if "simulated" in kind else who


def _describe_size(row: tables.TableRow) -> str:
    ends = tables.format_ends(row.number("low"), row.number("high"))
    share = f"{tables.format_percent(row.number('recall'))}{ends}, {row.count('caught')} of {row.count('n')}"
    return f"{row.text('error_size')}: {share}"


def _describe_row(row: tables.TableRow) -> str:
    return f"{_name_judge(row)}, {_describe_size(row)}"


def _has_sizes(document: tables.Document) -> bool:
    return any(row.number("smallest") is not None for row in _list_rows(document))


DETECTION_BY_SIZE = theme.Drawing(
    _draw_sizes, tables.describe_rows("Rated as an error, by size", _list_rows, _describe_row, most=9), _has_sizes
)
