"""Texts of agents, models and sandboxes on pages: the beginning with control characters by name, and diffs of two workspaces."""

import html
from collections.abc import Mapping, Sequence
from difflib import unified_diff
from typing import NamedTuple

from simulation.web.calls import VisibleText, decode_bytes, make_visible

_MAX_DIFF_LINES = 800  # of a file; difflib needs quadratic time at worst
_MAX_DIFF_BYTES = 64 * 2**10
_MAX_SHOWN = 200_000  # characters of one text, when it is asked for
_MARK_BYTES = 40  # of the tags around the name of a control character


class DiffLine(NamedTuple):
    """A line of a diff. `kind`: "add", "del", "at" (a place in the file) or "" for an unchanged line. `raw` is hostile."""

    kind: str
    raw: str

    @property
    def text(self) -> VisibleText:
        """Return the line for the page. Made only for lines that are shown: a workspace of 16 MiB would need a minute."""
        return make_visible(self.raw, 1000)


class FileDiff(NamedTuple):
    """A file that differs between two workspaces. `change`: changed, new or removed. `problem`: why no lines are shown, or ""."""

    path: str
    change: str
    added: int
    removed: int
    lines: Sequence[DiffLine]
    problem: str = ""


def preview_text(text: str, limit: int, length: int | None = None) -> VisibleText:
    """Return the beginning of a text that needs at most `limit` bytes of ASCII on the page. `length`: of the whole text, if it was cut."""
    shown = min(limit, len(text))
    # Escaping and names of control characters make some texts many times as long.
    while (visible := make_visible(text, shown)) and count_shown_bytes(visible) > limit and shown > 1:
        shown //= 2
    return visible._replace(length=len(text) if length is None else length)


def show_whole_text(text: str) -> VisibleText:
    """Return up to 200,000 characters of a text."""
    return make_visible(text, _MAX_SHOWN)


def count_shown_bytes(visible: VisibleText) -> int:
    """Return the bytes of ASCII that a text needs on the page, with the tags around names of control characters."""
    return sum(len(html.escape(piece.text)) + _MARK_BYTES * piece.mark for piece in visible.pieces)


def compare_files(before: Mapping[str, bytes | None], after: Mapping[str, bytes | None]) -> list[FileDiff]:
    """Return the differences of files by path; None where a workspace has no such file."""
    return [_compare_file(path, before.get(path), after.get(path)) for path in sorted({*before, *after})]


def _compare_file(path: str, before: bytes | None, after: bytes | None) -> FileDiff:
    change = "new" if before is None else "removed" if after is None else "changed"
    sides = [decode_bytes(content or b"") for content in (before, after)]
    lines = [side.split("\n") if side else [] for side in sides]
    if max(map(len, lines)) > _MAX_DIFF_LINES or max(map(len, sides)) > _MAX_DIFF_BYTES:
        problem = f"no lines are shown of a file with more than {_MAX_DIFF_LINES} lines or 64 KiB"
        return FileDiff(path, change, 0, 0, (), problem)
    shown = [_build_line(line) for line in list(unified_diff(lines[0], lines[1], lineterm="", n=2))[2:]]
    counts = [sum(line.kind == kind for line in shown) for kind in ("add", "del")]
    return FileDiff(path, change, counts[0], counts[1], shown)


def _build_line(line: str) -> DiffLine:
    kind = {"+": "add", "-": "del", "@": "at"}.get(line[:1], "")
    return DiffLine(kind, line)
