"""Texts: strict JSON, storable and visible characters, digests, counts and lists in words."""

import hashlib
import time

import pytest

from wetbench_site import text
from wetbench_site.text import DuplicateFieldError


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_json_with_a_number_that_is_none_is_rejected(number: str) -> None:
    with pytest.raises(ValueError, match="not"):
        text.parse_json(f'{{"volume": [{number}]}}')


def test_json_with_a_repeated_field_is_rejected_by_its_name() -> None:
    with pytest.raises(DuplicateFieldError, match="the field 'volume' occurs twice"):
        text.parse_json('{"name": "a", "inner": {"volume": 1, "volume": 2}}')


def test_json_with_a_repeated_field_among_many_is_rejected_quickly() -> None:
    names = [*range(30_000), 29_999]  # 20 s if every name was counted by itself
    begin = time.process_time()
    with pytest.raises(DuplicateFieldError, match="'29999'"):
        text.parse_json("{" + ",".join(f'"{name}":0' for name in names) + "}")
    assert time.process_time() - begin < 2


@pytest.mark.parametrize("written", [r'"\u0000"', r'{"a\u0000": 1}', r'["\\\u0000"]', r'"\ud800"', r'{"\udfff": 1}'])
def test_json_with_characters_that_no_database_stores_is_rejected(written: str) -> None:
    with pytest.raises(ValueError, match=r"NUL|surrogate"):
        text.parse_json(written)


@pytest.mark.parametrize(
    ("written", "value"),
    [(r'"\\u0000"', r"\u0000"), (r'"\ud83e\uddea"', "🧪"), ('{"a": [1, 2.5, null]}', {"a": [1, 2.5, None]})],
)
def test_json_that_a_database_stores_is_parsed(written: str, value: object) -> None:
    assert text.parse_json(written) == value


@pytest.mark.parametrize(("value", "storable"), [("50 µL\n", True), ("a\0", False), ("a\ud800b", False), ("", True)])
def test_text_is_storable_without_nul_and_lone_surrogates(value: str, storable: bool) -> None:
    assert text.is_storable(value) == storable


@pytest.mark.parametrize("sign", ["\x1b", "\u200b", "\u202e", "\u2066", "\ufeff", "\x85"])
def test_characters_that_nobody_sees_are_invisible(sign: str) -> None:
    assert text.INVISIBLE.search(f"a{sign}b") and not text.INVISIBLE.search("a\t b\r\nµ 🧪")


def test_digest_of_json_does_not_depend_on_the_order_of_fields() -> None:
    assert text.hash_json({"a": 1, "b": {"c": 2, "d": 3}}) == text.hash_json({"b": {"d": 3, "c": 2}, "a": 1})
    assert text.hash_json({"a": 1}) == hashlib.sha256(b'{"a": 1}').hexdigest()
    assert text.hash_json([1, 2]) != text.hash_json([2, 1])


def test_digest_of_text_with_a_lone_surrogate_is_that_with_a_question_mark() -> None:
    assert text.hash_text("a\ud800") == text.hash_text("a?") == hashlib.sha256(b"a?").hexdigest()


def test_counts_and_lists_read_as_words() -> None:
    assert [text.format_count(n, "item") for n in (0, 1, 2000)] == ["0 items", "1 item", "2,000 items"]
    assert [text.join_words("abc"[:n]) for n in range(4)] == ["", "a", "a and b", "a, b and c"]


def test_natural_sort_key_accepts_any_text() -> None:
    long = "R" + "9" * 5000
    assert sorted([long, "R10", "R2", ""], key=text.natural_sort_key) == ["", "R2", "R10", long]
