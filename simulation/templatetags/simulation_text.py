"""Format stored names for people. Templates escape the results like any other text."""

from collections.abc import Mapping
from typing import Any

from django import template

from simulation.web import transcript

register = template.Library()
register.filter("words", transcript.humanise_name)
register.filter("written", transcript.format_value)
register.filter("said", transcript.display_value)


@register.filter("under")
def get_item(values: Mapping[str, Any], key: str) -> Any:
    """Return the value of a key, or 0 if it is missing."""
    return values.get(key, 0)


@register.filter("error_codes")
def list_error_codes(report: Mapping[str, Any] | None) -> str:
    """Return the codes of the errors that the checker found, or "" if there are none."""
    findings = report["findings"] if report else ()
    return ", ".join(sorted({finding["code"] for finding in findings if finding["severity"] == "error"}))
