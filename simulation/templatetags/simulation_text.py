"""Stored names as people say them. What these return is escaped by the template like any other text."""

from collections.abc import Mapping
from typing import Any

from django import template

from simulation.web import transcript

register = template.Library()
register.filter("words", transcript.words)
register.filter("written", transcript.written)
register.filter("said", transcript.said)


@register.filter
def under(values: Mapping[str, Any], key: str) -> Any:
    """The value under a key, 0 if there is none."""
    return values.get(key, 0)


@register.filter
def error_codes(report: Mapping[str, Any] | None) -> str:
    """What the checker holds against an outcome, as codes; "" for nothing."""
    found = report["findings"] if report else ()
    return ", ".join(sorted({finding["code"] for finding in found if finding["severity"] == "error"}))
