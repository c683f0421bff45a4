"""The table of detection by size of error: how the share of errors that people and models report grows with their size."""

from collections.abc import Iterator, Mapping, Sequence

from ratings.results.analyses.error_sizes import NO_ERROR, RANGES, UNSIZED
from ratings.results.analyses.rating_columns import AnalysisData
from ratings.results.analyses.sections_machines import Machine, iter_reported_shares
from ratings.results.analyses.sections_raters import describe_reference
from ratings.results.analyses.tables import Cells, Json, build_table, builds

_RANGES_BY_NAME = {one.name: one for one in RANGES}


@builds("detection_by_size")
def build_size_table(data: AnalysisData, machines: Sequence[Machine]) -> dict[str, Json]:
    """Return the table `detection_by_size`; it has no rows if no planted error has a known size."""
    groups = {fact.code: ((fact.error_size,),) for fact in data.items if fact.error_size}
    sized = {name for ((name,),) in groups.values()} - {UNSIZED.name, NO_ERROR.name}
    rows = [*_iter_size_rows(data, machines, groups)] if sized else []
    notes = describe_reference(data, True) if rows else []
    return {"detection_by_size": build_table("detection_by_size", rows, notes=notes)}


def _iter_size_rows(
    data: AnalysisData, machines: Sequence[Machine], groups: Mapping[str, tuple[tuple[str], ...]]
) -> Iterator[Cells]:
    """Yield the shares of everybody who judges, each with the ranges from the smallest to the largest."""
    order = {one.name: place for place, one in enumerate(RANGES)}
    by_judge: dict[str, list[Cells]] = {}
    for row in iter_reported_shares(data, machines, groups):
        by_judge.setdefault(str(row[0]), []).append(row)
    for rows in by_judge.values():
        for who, kind, name, *shares in sorted(rows, key=lambda row: order[row[2]]):
            one = _RANGES_BY_NAME[name]
            yield [who, kind, name, one.smallest, one.largest, *shares, data.table.reference_name]
