"""The matrix of raters and items: as planned if a draft were opened now, or as assigned in an opened study."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from ratings.models import Assignment, Item, Study
from ratings.models.answers import FIRST
from ratings.protocol.plan_types import IdenticalCases
from ratings.studies import freeze, lifecycle

_MAX_DRAWN_CELLS = 40_000  # cells: beyond that they are too small to see, and the table shows more


class ItemGroup(NamedTuple):
    """Items of one source, side by side in the picture. `start` is the column of the first."""

    name: str
    start: int
    items: int

    @property
    def left_edge(self) -> int:
        """Return where the picture draws the line to the left of the group."""
        # Cells are 9 wide at a distance of 10: the line is in the gap.
        return 10 * self.start - 1


class MatrixRow(NamedTuple):
    """One rater: numbers of items by group (`counts`), by layout (`screens`) and by session of a crossover, else ()."""

    label: str
    items: int
    repeats: int
    done: int
    counts: tuple[tuple[str, int], ...]
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
    """Raters and items. `groups` is empty once the study is open: sources are sealed then.

    `alike`: for a draft, the cases that it leaves out because both sources gave the identical outcome.
    """

    items: int
    ratings: int
    groups: tuple[ItemGroup, ...]
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
    """Return the assignments by source that opening this draft now would create. Raises the errors of opening."""
    plan = freeze.preview_opening(lifecycle.parse_protocol(study.protocol), study)
    sources = {item.key: item.source for item in plan.planned}
    names = {key: label if kind == "none" else f"{label}, {kind} errors" for key, (label, kind) in sources.items()}
    order = sorted(names, key=lambda key: (names[key], key))
    labels = [f"R{number:02}" for number in range(1, plan.raters + 1)]
    cells = [_Cell(labels[a.rater], a.key, a.occasion, a.layout, False, a.session) for a in plan.assignments]
    return _build_matrix(labels, order, cells, names)._replace(alike=plan.alike)


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
    return _build_matrix(labels, [str(code) for code in codes], cells, {})


def _build_matrix(
    labels: Sequence[str], order: Sequence[str], cells: Sequence[_Cell], names: Mapping[str, str]
) -> AssignmentMatrix:
    names_in_order = [names[key] for key in order if names]
    groups = tuple(ItemGroup(name, names_in_order.index(name), n) for name, n in Counter(names_in_order).items())
    cells_by_rater: dict[str, list[_Cell]] = defaultdict(list)
    for cell in cells:
        cells_by_rater[cell.rater].append(cell)
    lines = tuple(_build_row(label, cells_by_rater[label], groups, names) for label in labels)
    column = {key: number for number, key in enumerate(order)}
    picture = _draw_picture(labels, cells, column) if 0 < len(cells) <= _MAX_DRAWN_CELLS else None
    first_cells = [cell for cell in cells if cell.occasion == FIRST]
    items: dict[str, set[str]] = defaultdict(set)
    for cell in first_cells:
        items[cell.rater].add(cell.item)
    common = [len(first & second) for first, second in combinations(items.values(), 2)]
    shared = (min(common), max(common)) if common else None
    return AssignmentMatrix(len(order), len(first_cells), groups, lines, shared, picture)


def _build_row(
    label: str, own_cells: Sequence[_Cell], groups: Iterable[ItemGroup], names: Mapping[str, str]
) -> MatrixRow:
    first_cells = [cell for cell in own_cells if cell.occasion == FIRST]
    counts = Counter(names.get(cell.item) for cell in first_cells)
    screens = Counter(cell.layout for cell in first_cells)
    sessions = Counter(cell.session for cell in first_cells)
    done, by_group = sum(cell.done for cell in own_cells), tuple((group.name, counts[group.name]) for group in groups)
    by_session = tuple(count for _, count in sorted(sessions.items())) if len(sessions) > 1 else ()
    n_first, by_screen = len(first_cells), tuple(sorted(screens.items()))
    return MatrixRow(label, n_first, len(own_cells) - n_first, done, by_group, by_screen, by_session)


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
