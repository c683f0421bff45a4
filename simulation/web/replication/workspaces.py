"""The workspace of a code episode on pages: its files, what changed, and single files."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from simulation.code_runs import stored_trees
from simulation.lab.errors import LabError
from simulation.models import Blob, Tree
from simulation.web.replication.text_previews import FileDiff, compare_files

_MAX_FILES = 60  # in the list on the page of an episode
_INLINE_LINES = 120  # of all diffs together; a longer one is loaded when it is opened


class FileRow(NamedTuple):
    """A file of a workspace. `state`: new, changed, removed or "". `size` in bytes, None if the file was removed."""

    path: str
    state: str
    size: int | None


class WorkspaceView(NamedTuple):
    """Files and changes of a workspace. `inline` has the diffs that the page itself shows, by path."""

    files: Sequence[FileRow]
    n_files: int
    diffs: Sequence[FileDiff]
    inline: frozenset[str]
    problem: str = ""


def show_workspace(initial: Tree, present: Tree, show_all: bool = False) -> WorkspaceView:
    """Return the files of the present workspace and their differences from the masked tree, with at most two queries."""
    before, after = (dict(tree.entries) for tree in (initial, present))
    sizes = dict(Blob.objects.filter(pk__in=set(after.values())).values_list("sha256", "size"))
    rows = [
        FileRow(path, _name_state(path, before, after), sizes.get(after.get(path, "")))
        for path in sorted({*before, *after})
    ]
    rows.sort(key=lambda row: not row.state)  # changed files first
    try:
        diffs = compare_trees(before, after)
    except LabError as error:
        return WorkspaceView(rows[:_MAX_FILES], len(rows), (), frozenset(), str(error))
    inline, left = set(), _INLINE_LINES
    for diff in diffs:
        left -= len(diff.lines)
        if left >= 0:
            inline.add(diff.path)
    return WorkspaceView(rows if show_all else rows[:_MAX_FILES], len(rows), diffs, frozenset(inline))


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
