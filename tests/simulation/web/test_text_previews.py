"""Diffs of workspaces on pages: what a line shows, and what is not made although no one sees it."""

import pytest

from simulation.web.replication import text_previews


def test_diff_shows_control_characters_by_name() -> None:
    [diff] = text_previews.compare_files({"a.py": b"x\n"}, {"a.py": b"x\n\x1b[2J<b>\n"})
    [added] = [line for line in diff.lines if line.kind == "add"]
    assert [(piece.text, piece.mark) for piece in added.text.pieces] == [
        ("+", False),
        ("U+001B", True),
        ("[2J<b>", False),
    ]
    assert (diff.change, diff.added, diff.removed) == ("changed", 1, 0)


def test_diff_of_many_files_makes_no_line_visible_before_it_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise AssertionError("a workspace of 16 MiB of control characters would need a minute")

    monkeypatch.setattr(text_previews, "make_visible", fail)
    after = {f"f{number}": b"\n".join([b"\x1b"] * 300) for number in range(50)}
    diffs = text_previews.compare_files(dict.fromkeys(after), after)
    assert sum(len(diff.lines) for diff in diffs) == 50 * 301 and diffs[0].added == 300
