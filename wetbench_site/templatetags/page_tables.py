"""Filters for tables: whether a column has content, and numbers that are never broken over two lines."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from django import template
from django.utils.html import format_html, format_html_join

register = template.Library()

_LONG_NUMBER = re.compile(r"([-+\N{MINUS SIGN}]?\d[\d.,]{3,}\d?)")  # shorter numbers fit into every column


@register.filter
def has_any(rows: Iterable[Any], name: str) -> bool:
    """Return whether any row has content in this field. Zero is content; a column without content is not drawn."""
    return any(_get_value(row, name) not in (None, "", False, (), []) for row in rows)


def _get_value(row: Any, name: str) -> Any:
    value = row.get(name) if isinstance(row, Mapping) else getattr(row, name)
    # `False == 0`, so that the comparison above would take a zero for a missing value.
    return str(value) if type(value) in (int, float) else value


@register.filter
def unbroken_numbers(text: Any) -> str:
    """Return the text, escaped, with long numbers in an element that does not wrap; anything else may break anywhere."""
    # The pattern is one group, so every second part is a number.
    parts = enumerate(_LONG_NUMBER.split(str(text)))
    return format_html_join(
        "",
        "{}",
        ((format_html('<span class="nowrap">{}</span>', part) if place % 2 else part,) for place, part in parts),
    )
