"""Numbers of a study's page as people read them."""

from django import template

register = template.Library()


@register.filter
def percent(share: float | None) -> str:
    """A share as whole per cent; "undefined" for None."""
    return "undefined" if share is None else f"{share:.0%}"


@register.filter
def seconds(number: float | None) -> str:
    """A time per item; a dash before there is one."""
    if number is None:
        return "–"
    return f"{number:.0f} s" if number >= 1 or number == 0 else "under 1 s"


@register.filter
def words(code: str) -> str:
    """A name of our own making, such as a kind of error, with spaces for its underscores."""
    return code.replace("_", " ")
