"""The workspace of a code episode on pages: its files, what changed, and single files."""

import html
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote

from simulation.code_runs import stored_trees
from simulation.lab.errors import LabError
from simulation.models import Blob, Tree
from simulation.web.replication.text_previews import FileDiff, compare_files, count_shown_bytes

_MAX_FILES = 25  # in a list on the page of an episode
_PATH_BYTES = 10_000  # of the paths of a list: 25 long ones with signs that are escaped would be 50 KB
_INLINE_BYTES = 16_000  # of the lines of all diffs together; a longer one is loaded when it is opened
_LINE_TAG_BYTES = 50


class FileRow(NamedTuple):
    """A file of a workspace. `state`: new, changed, removed or "". `size` in bytes, None if the file was removed."""

    path: str
    state: str
    size: int | None


class WorkspaceView(NamedTuple):
    """The first files and changes of a workspace, and how many there are. `inline`: paths whose diffs the page itself shows."""

    files: Sequence[FileRow]
    n_files: int
    diffs: Sequence[FileDiff]
    n_diffs: int
    inline: frozenset[str]
    problem: str = ""


def show_workspace(initial: Tree, present: Tree, show_all: bool = False) -> WorkspaceView:
    """Return the files of the present workspace and their differences from the masked tree, with at most two queries.

    Without `show_all`, only the first ones, so that the page stays small whatever an agent writes.
    """
    before, after = (dict(tree.entries) for tree in (initial, present))
    sizes = dict(Blob.objects.filter(pk__in=set(after.values())).values_list("sha256", "size"))
    rows = [
        FileRow(path, _name_state(path, before, after), sizes.get(after.get(path, "")))
        for path in sorted({*before, *after})
    ]
    rows.sort(key=lambda row: not row.state)  # changed files first
    n_rows, problem, diffs = len(rows), "", list[FileDiff]()
    try:
        diffs = compare_trees(before, after)
    except LabError as error:
        problem = str(error)
    n_diffs = len(diffs)
    if not show_all:
        rows = rows[: _count_shown([row.path for row in rows])]
        diffs = diffs[: _count_shown([diff.path for diff in diffs])]
    inline, left = set(), _INLINE_BYTES
    for diff in diffs:
        size = _measure_lines(diff, left)
        if size <= left:
            inline.add(diff.path)
            left -= size
    return WorkspaceView(rows, n_rows, diffs, n_diffs, frozenset(inline), problem)


def _count_shown(paths: Sequence[str]) -> int:
    """Return how many of these paths a list shows: each is written as text and as part of a URL."""
    left = _PATH_BYTES
    for number, path in enumerate(paths[:_MAX_FILES]):
        left -= len(html.escape(path).encode()) + len(quote(path, safe=""))
        if left < 0:
            return number
    return min(len(paths), _MAX_FILES)


def _measure_lines(diff: FileDiff, limit: int) -> int:
    """Return the bytes that a diff needs on the page, or any number over the limit."""
    size = 0
    for line in diff.lines:
        if size > limit:
            break
        size += count_shown_bytes(line.text) + _LINE_TAG_BYTES
    return size


def _name_state(path: str, before: Mapping[str, str], after: Mapping[str, str]) -> str:
    if path not in before:
        return "new"
    if path not in after:
        return "removed"
    return "changed" if before[path] != after[path] else ""


def compare_trees(before: Mapping[str, str], after: Mapping[str, str], only: str = "") -> list[FileDiff]:
    """Return the differences of two trees, given as digests by path. `only`: of this file alone. Raises DamagedTreeError."""
    changed = [path for path in {*before, *after} if before.get(path) != after.get(path) and only in ("", path)]
    wanted = {tree[path] for tree in (before, after) for path in changed if path in tree}
    contents = stored_trees.load_blobs(wanted)

    def pick(tree: Mapping[str, str]) -> dict[str, bytes | None]:
        return {path: contents[tree[path]] if path in tree else None for path in changed}

    return compare_files(pick(before), pick(after))
