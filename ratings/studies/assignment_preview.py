"""The matrix of raters and items: as planned if a draft were opened now, or as assigned in an opened study."""

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from ratings.models import Assignment, Item, Study
from ratings.models.answers import FIRST
from ratings.protocol.plan_types import IdenticalCases
from ratings.studies import freeze, lifecycle

_MAX_DRAWN_CELLS = 40_000  # cells: beyond that they are too small to see, and the table shows more


class SourceSpread(NamedTuple):
    """The items of one source, and the fewest and most of them that any rater gets."""

    name: str
    items: int
    fewest: int
    most: int


class MatrixRow(NamedTuple):
    """One rater: numbers of items, by layout (`screens`) and by session of a crossover, else ()."""

    label: str
    items: int
    repeats: int
    done: int
    screens: tuple[tuple[str, int], ...]
    sessions: tuple[int, ...] = ()


class MatrixPicture(NamedTuple):
    """The picture of the matrix: columns are items, rows are raters. Each path draws the cells of one kind."""

    width: int
    height: int
    waiting: str
    done: str
    repeats: str


class AssignmentMatrix(NamedTuple):
    """Raters and items. `sources` is empty once the study is open: sources are sealed then.

    A draft's plan is the one that opening makes. So not even the plan states which rater gets which source: who compares it
    with the assignments of the open study would learn the sources of items.
    `alike`: for a draft, the cases that it leaves out because both sources gave the identical outcome.
    """

    items: int
    ratings: int
    sources: tuple[SourceSpread, ...]
    lines: tuple[MatrixRow, ...]
    shared: tuple[int, int] | None  # fewest and most items that two raters have in common
    picture: MatrixPicture | None
    alike: IdenticalCases = IdenticalCases()


class _Cell(NamedTuple):
    rater: str
    item: str
    occasion: int
    layout: str
    done: bool
    session: int = 1


def preview_assignments(study: Study) -> AssignmentMatrix:
    """Return the assignments that opening this draft now would create. Raises the errors of opening."""
    plan = freeze.preview_opening(lifecycle.parse_protocol(study.protocol), study)
    labels = [f"R{number:02}" for number in range(1, plan.raters + 1)]
    cells = [_Cell(labels[a.rater], a.key, a.occasion, a.layout, False, a.session) for a in plan.assignments]
    # Keys contain the source of an item, so a column's position must not follow from them.
    order = sorted(item.key for item in plan.planned)
    random.Random(f"columns/{study.random_seed}").shuffle(order)
    matrix = _build_matrix(labels, order, cells)
    return matrix._replace(alike=plan.alike, sources=_count_sources(plan, labels, cells))


def _count_sources(
    plan: freeze.OpeningPreview, labels: Sequence[str], cells: Iterable[_Cell]
) -> tuple[SourceSpread, ...]:
    sources = {item.key: item.source for item in plan.planned}
    names = {key: label if kind == "none" else f"{label}, {kind} errors" for key, (label, kind) in sources.items()}
    by_rater = Counter((cell.rater, names[cell.item]) for cell in cells if cell.occasion == FIRST)
    spreads = []
    for name, n in sorted(Counter(names.values()).items()):
        counts = [by_rater[label, name] for label in labels]
        spreads.append(SourceSpread(name, n, min(counts, default=0), max(counts, default=0)))
    return tuple(spreads)


def load_assignments(study: Study) -> AssignmentMatrix:
    """Return who rates what in an opened study."""
    labels = list(study.raters.order_by("number", "pk").values_list("label", flat=True))
    assignments = Assignment.objects.filter(item__study=study, released_at__isnull=True)
    rows = assignments.values_list("rater__label", "item__code", "occasion", "layout", "rating__pk", "session")
    cells = [
        _Cell(label, str(item), n, layout, rating is not None, part) for label, item, n, layout, rating, part in rows
    ]
    # In the order of random codes: a column's position must reveal no source.
    codes = Item.objects.filter(study=study).order_by("code").values_list("code", flat=True)
    return _build_matrix(labels, [str(code) for code in codes], cells)


def _build_matrix(labels: Sequence[str], order: Sequence[str], cells: Sequence[_Cell]) -> AssignmentMatrix:
    cells_by_rater: dict[str, list[_Cell]] = defaultdict(list)
    for cell in cells:
        cells_by_rater[cell.rater].append(cell)
    lines = tuple(_build_row(label, cells_by_rater[label]) for label in labels)
    column = {key: number for number, key in enumerate(order)}
    picture = _draw_picture(labels, cells, column) if 0 < len(cells) <= _MAX_DRAWN_CELLS else None
    first_cells = [cell for cell in cells if cell.occasion == FIRST]
    items: dict[str, set[str]] = defaultdict(set)
    for cell in first_cells:
        items[cell.rater].add(cell.item)
    common = [len(first & second) for first, second in combinations(items.values(), 2)]
    shared = (min(common), max(common)) if common else None
    return AssignmentMatrix(len(order), len(first_cells), (), lines, shared, picture)


def _build_row(label: str, own_cells: Sequence[_Cell]) -> MatrixRow:
    first_cells = [cell for cell in own_cells if cell.occasion == FIRST]
    screens = Counter(cell.layout for cell in first_cells)
    sessions = Counter(cell.session for cell in first_cells)
    by_session = tuple(count for _, count in sorted(sessions.items())) if len(sessions) > 1 else ()
    n_first, done = len(first_cells), sum(cell.done for cell in own_cells)
    return MatrixRow(label, n_first, len(own_cells) - n_first, done, tuple(sorted(screens.items())), by_session)


def _draw_picture(labels: Sequence[str], cells: Iterable[_Cell], column: Mapping[str, int]) -> MatrixPicture:
    row_of_rater = {label: number for number, label in enumerate(labels)}
    # One path for each kind instead of one shape for each cell: 40,000 shapes would slow the browser down.
    kinds: dict[str, list[str]] = {"waiting": [], "done": [], "repeats": []}
    for cell in cells:
        kind = "repeats" if cell.occasion != FIRST else "done" if cell.done else "waiting"
        x, y = 10 * column[cell.item], 10 * row_of_rater[cell.rater]
        # A repeat is drawn as a smaller square inside the cell.
        kinds[kind].append(f"M{x + 3} {y + 3}h3v3h-3z" if kind == "repeats" else f"M{x} {y}h9v9h-9z")
    return MatrixPicture(10 * len(column), 10 * len(labels), *map("".join, kinds.values()))
