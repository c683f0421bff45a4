"""Raters and items: who would rate what if a draft were opened now, and who rates what in an opened study."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from ratings.models import Assignment, Item, Study
from ratings.models.answers import FIRST
from ratings.protocol.planning import Alike
from ratings.studies import lifecycle
from ratings.studies.pool import opening

_DRAWN = 40_000  # cells: beyond that they are too small to see, and the table shows more


class Group(NamedTuple):
    """Items of one source, side by side in the picture. `start` is the column of the first."""

    name: str
    start: int
    items: int

    @property
    def edge(self) -> int:
        """Return where the picture draws the line to the left of the group."""
        # Cells are 9 wide at a distance of 10: the line is in the gap.
        return 10 * self.start - 1


class Line(NamedTuple):
    """One rater. `counts` are their items of each group, `screens` how many they see in which layout.

    `sessions` are the numbers of items in the sessions of a crossover, else ().
    """

    label: str
    items: int
    repeats: int
    done: int
    counts: tuple[tuple[str, int], ...]
    screens: tuple[tuple[str, int], ...]
    sessions: tuple[int, ...] = ()


class Picture(NamedTuple):
    """Columns are items, rows are raters; each path draws the cells of one kind."""

    width: int
    height: int
    waiting: str
    done: str
    repeats: str


class Matrix(NamedTuple):
    """Raters and items. `groups` is empty once the study is open: sources are sealed then.

    `alike`: for a draft, the cases that it leaves out because both sources gave the identical outcome.
    """

    items: int
    ratings: int
    groups: tuple[Group, ...]
    lines: tuple[Line, ...]
    shared: tuple[int, int] | None  # fewest and most items that two raters have in common
    picture: Picture | None
    alike: Alike = Alike()


class _Cell(NamedTuple):
    rater: str
    item: str
    occasion: int
    layout: str
    done: bool
    session: int = 1


def rehearse(study: Study) -> Matrix:
    """Return the plan by source that opening this draft now would make, without writing. Raises the errors of opening."""
    plan = opening.preview(lifecycle.read_protocol(study.protocol), study)
    names = {item.key: source_name(*item.source) for item in plan.planned}
    order = sorted(names, key=lambda key: (names[key], key))
    labels = [f"R{number:02}" for number in range(1, plan.seats + 1)]
    cells = [
        _Cell(labels[place.rater], place.key, place.occasion, place.layout, False, place.session)
        for place in plan.places
    ]
    return _matrix(labels, order, cells, names)._replace(alike=plan.alike)


def planned(study: Study) -> Matrix:
    """Return who rates what in an opened study."""
    labels = list(study.raters.order_by("number", "pk").values_list("label", flat=True))
    # In the order of random codes: a column's position must reveal no source.
    item_order = [
        str(code) for code in Item.objects.filter(study=study).order_by("code").values_list("code", flat=True)
    ]
    return _matrix(labels, item_order, _cells(study), {})


def source_name(label: str, perturbation: str) -> str:
    """Return a source as people read it: "offline", or "offline, subtle errors"."""
    return label if perturbation == "none" else f"{label}, {perturbation} errors"


def _matrix(labels: Sequence[str], order: Sequence[str], cells: Sequence[_Cell], names: Mapping[str, str]) -> Matrix:
    groups = _groups([names[key] for key in order]) if names else ()
    lines = tuple(_line(label, cells_of_rater, groups, names) for label, cells_of_rater in _by_rater(labels, cells))
    column = {key: number for number, key in enumerate(order)}
    picture = _picture(labels, cells, column) if 0 < len(cells) <= _DRAWN else None
    first_cells = [cell for cell in cells if cell.occasion == FIRST]
    return Matrix(len(order), len(first_cells), groups, lines, _shared(first_cells), picture)


def _cells(study: Study) -> list[_Cell]:
    assignments = Assignment.objects.filter(item__study=study, released_at__isnull=True)
    rows = assignments.values_list("rater__label", "item__code", "occasion", "layout", "rating__pk", "session")
    return [
        _Cell(label, str(item), occasion, layout, rating is not None, session)
        for label, item, occasion, layout, rating, session in rows
    ]


def _groups(names: Sequence[str]) -> tuple[Group, ...]:
    counts = Counter(names)
    return tuple(Group(name, names.index(name), count) for name, count in counts.items())


def _by_rater(labels: Sequence[str], cells: Iterable[_Cell]) -> list[tuple[str, list[_Cell]]]:
    cells_by_rater: dict[str, list[_Cell]] = defaultdict(list)
    for cell in cells:
        cells_by_rater[cell.rater].append(cell)
    return [(label, cells_by_rater[label]) for label in labels]


def _line(label: str, own: Sequence[_Cell], groups: Sequence[Group], names: Mapping[str, str]) -> Line:
    first_cells = [cell for cell in own if cell.occasion == FIRST]
    counts = Counter(names.get(cell.item) for cell in first_cells)
    screens = Counter(cell.layout for cell in first_cells)
    sessions = Counter(cell.session for cell in first_cells)
    return Line(
        label=label,
        items=len(first_cells),
        repeats=len(own) - len(first_cells),
        done=sum(cell.done for cell in own),
        counts=tuple((group.name, counts[group.name]) for group in groups),
        screens=tuple(sorted(screens.items())),
        sessions=tuple(count for _, count in sorted(sessions.items())) if len(sessions) > 1 else (),
    )


def _shared(first: Iterable[_Cell]) -> tuple[int, int] | None:
    items: dict[str, set[str]] = defaultdict(set)
    for cell in first:
        items[cell.rater].add(cell.item)
    common = [len(first_items & second_items) for first_items, second_items in combinations(items.values(), 2)]
    return (min(common), max(common)) if common else None


def _picture(labels: Sequence[str], cells: Iterable[_Cell], column: Mapping[str, int]) -> Picture:
    row_of_rater = {label: number for number, label in enumerate(labels)}
    # One path for each kind instead of one shape for each cell: 40,000 shapes would slow the browser down.
    kinds: dict[str, list[str]] = {"waiting": [], "done": [], "repeats": []}
    for cell in cells:
        kind = "repeats" if cell.occasion != FIRST else "done" if cell.done else "waiting"
        kinds[kind].append(_square(column[cell.item], row_of_rater[cell.rater], kind))
    return Picture(10 * len(column), 10 * len(labels), *("".join(kinds[kind]) for kind in kinds))


def _square(x: int, y: int, kind: str) -> str:
    """Return the path of a cell, or of the smaller one inside it that shows a repeat."""
    if kind == "repeats":
        return f"M{10 * x + 3} {10 * y + 3}h3v3h-3z"
    return f"M{10 * x} {10 * y}h9v9h-9z"
