"""Escaping of invisible characters in texts of models."""

import sys
import unicodedata

import pytest

from simulation.web.calls import TextPiece, decode_bytes, make_visible

UNSEEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp", "Zs")


def test_every_invisible_character_is_replaced_by_its_code_point() -> None:
    hidden = [
        chr(code)
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(chr(code)) in UNSEEN and chr(code) not in "\n\t "
    ]
    unmarked = [f"{ord(one):X}" for one in hidden if not make_visible(one).pieces[0].mark]
    assert unmarked == []


def test_ordinary_text_is_unchanged() -> None:
    text = "5 µL of ß-actin,\n\t37 °C ± 0.5; 水 − naïve, e\u0301, Ω 🧪"
    assert make_visible(text).pieces == [TextPiece(text)]


def test_repeated_invisible_characters_are_counted() -> None:
    pieces = make_visible("a\u200b\u200b\u200b\u202eb\x00").pieces
    marks = [("a", False), ("U+200B ×3", True), ("U+202E", True), ("b", False), ("U+0000", True)]
    assert [tuple(piece) for piece in pieces] == marks


@pytest.mark.parametrize("text", ["\ud800", "x\udfffy"])
def test_surrogates_are_escaped_so_that_the_text_can_be_encoded(text: str) -> None:
    assert "".join(piece.text for piece in make_visible(text).pieces).encode()


def test_long_text_is_truncated_with_its_full_length() -> None:
    cut = make_visible("x" * 50, limit=20)
    assert (cut.pieces, cut.shown, cut.length, cut.is_truncated) == ([TextPiece("x" * 20)], 20, 50, True)
    assert not make_visible("x" * 20, limit=20).is_truncated


def test_undecodable_bytes_are_shown_as_hex_escapes() -> None:
    assert decode_bytes(b"ok \xff\xc3(") == "ok \\xff\\xc3("
