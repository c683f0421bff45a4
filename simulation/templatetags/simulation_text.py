"""Format stored names, money, token counts and durations for people. Templates escape the results like any other text."""

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django import template

from simulation.lab import notation
from simulation.web import transcript

register = template.Library()
register.filter("words", transcript.humanise_name)
register.filter("written", transcript.format_value)
register.filter("said", transcript.display_value)
register.filter("explained", notation.write_explanation)


@register.filter("under")
def get_item(values: Mapping[str, Any], key: str) -> Any:
    """Return the value of a key, or 0 if it is missing."""
    return values.get(key, 0)


@register.filter("error_codes")
def list_error_codes(report: Mapping[str, Any] | None) -> str:
    """Return the codes of the errors that the checker found, or "" if there are none."""
    findings = report["findings"] if report else ()
    return ", ".join(sorted({finding["code"] for finding in findings if finding["severity"] == "error"}))


@register.filter("money")
def format_money(amount: Decimal | None) -> str:
    """Return US dollars, with cents from one dollar on and more decimals below; "unknown" for None."""
    if amount is None:
        return "unknown"
    if amount == 0 or abs(amount) >= 1:
        return f"${amount:,.2f}"
    return f"${amount:.4f}" if abs(amount) >= Decimal("0.01") else f"${amount:.6f}"


@register.filter("deviation")
def format_deviation(deviation: float | None) -> str:
    """Return a relative deviation as a signed percentage, or as a factor from twice the true value on; "none" for None."""
    if deviation is None:
        return "none"
    return f"{deviation:+.1%}".replace("-", "−").replace("%", " %") if deviation < 1 else f"× {deviation + 1:.3g}"


@register.filter("thousands")
def format_thousands(number: int | None) -> str:
    """Return an integer with thousands separators; "unknown" for None."""
    return "unknown" if number is None else f"{number:,}"


@register.filter("lasted")
def format_duration(seconds: float | None) -> str:
    """Return the duration of a call; a dash if it is under way or was lost."""
    return "–" if seconds is None else f"{seconds:.1f} s"


@register.filter("duration")
def format_span(span: timedelta | None) -> str:
    """Return the duration of an episode in its two largest units; a dash if it has not ended."""
    return "–" if span is None else transcript.format_duration(max(int(span.total_seconds()), 0)) or "under 1 s"


@register.filter("per_minute")
def format_rate(rate: float) -> str:
    """Return a rate per minute, without decimals from ten on."""
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"
