"""Text of models on a page: nothing in it stays hidden, and nothing breaks the page."""

import sys
import unicodedata

import pytest

from simulation.web.visible import Piece, decoded, visible

UNSEEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp", "Zs")


def test_every_character_that_shows_nothing_gets_its_name() -> None:
    hidden = [
        chr(code)
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(chr(code)) in UNSEEN and chr(code) not in "\n\t "
    ]
    unmarked = [f"{ord(one):X}" for one in hidden if not visible(one).pieces[0].mark]
    assert unmarked == []


def test_what_people_write_stays_as_it_is() -> None:
    text = "5 µL of ß-actin,\n\t37 °C ± 0.5; 水 − naïve, e\u0301, Ω 🧪"
    assert visible(text).pieces == [Piece(text)]


def test_hidden_characters_in_a_row_are_counted() -> None:
    pieces = visible("a\u200b\u200b\u200b\u202eb\x00").pieces
    marks = [("a", False), ("U+200B ×3", True), ("U+202E", True), ("b", False), ("U+0000", True)]
    assert [tuple(piece) for piece in pieces] == marks


@pytest.mark.parametrize("text", ["\ud800", "x\udfffy"])
def test_half_a_character_cannot_break_the_page(text: str) -> None:
    assert "".join(piece.text for piece in visible(text).pieces).encode()


def test_a_long_text_is_cut_and_says_how_long_it_is() -> None:
    cut = visible("x" * 50, limit=20)
    assert (cut.pieces, cut.shown, cut.length, cut.cut) == ([Piece("x" * 20)], 20, 50, True)
    assert not visible("x" * 20, limit=20).cut


def test_bytes_that_are_no_text_are_shown_by_number() -> None:
    assert decoded(b"ok \xff\xc3(") == "ok \\xff\\xc3("
