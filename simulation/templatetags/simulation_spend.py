"""Money, tokens and seconds as people read them."""

from decimal import Decimal

from django import template

register = template.Library()


@register.filter
def money(amount: Decimal | None) -> str:
    """US dollars: cents from a dollar on, more places below it; "unknown" for None."""
    if amount is None:
        return "unknown"
    if amount == 0 or abs(amount) >= 1:
        return f"${amount:,.2f}"
    return f"${amount:.4f}" if abs(amount) >= Decimal("0.01") else f"${amount:.6f}"


@register.filter
def thousands(number: int | None) -> str:
    """A whole number with its thousands apart; "unknown" for None."""
    return "unknown" if number is None else f"{number:,}"


@register.filter
def lasted(seconds: float | None) -> str:
    """How long a call took; a dash while it is under way or was lost."""
    return "–" if seconds is None else f"{seconds:.1f} s"


@register.filter
def per_minute(rate: float) -> str:
    """So many in a minute; whole ones from ten on."""
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"
