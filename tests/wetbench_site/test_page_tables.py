"""Filters for tables: columns without content, and numbers that are not broken over two lines."""

from types import SimpleNamespace

import pytest

from wetbench_site.templatetags.page_tables import has_any, unbroken_numbers


@pytest.mark.parametrize(
    ("values", "drawn"),
    [([None, ""], False), ([], False), ([None, 0], True), ([0.0], True), ([False, ()], False), (["", "a"], True)],
)
def test_column_without_any_value_is_not_drawn_and_zero_is_a_value(values: list[object], drawn: bool) -> None:
    assert has_any([SimpleNamespace(note=value) for value in values], "note") is drawn
    assert has_any([{"note": value} for value in values], "note") is drawn


def test_long_numbers_do_not_wrap_and_all_text_is_escaped() -> None:
    assert unbroken_numbers("<b>100000000000 1/mL, 3,000.5 at 37") == (
        '&lt;b&gt;<span class="nowrap">100000000000</span> 1/mL, <span class="nowrap">3,000.5</span> at 37'
    )
    assert unbroken_numbers("\N{MINUS SIGN}12345") == '<span class="nowrap">\N{MINUS SIGN}12345</span>'
    assert unbroken_numbers("x" * 300) == "x" * 300
