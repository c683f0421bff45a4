"""Template filters that format the numbers of a study's page."""

from django import template

register = template.Library()


@register.filter("percent")
def format_percent(share: float | None) -> str:
    """Return a share as a whole percentage, or "undefined" for None."""
    # Formatted as % first: multiplying by 100 would round some shares differently.
    return "undefined" if share is None else f"{share:.0%}"


@register.filter("seconds")
def format_seconds(number: float | None) -> str:
    """Return a time per item; a dash if there is none yet."""
    if number is None:
        return "–"
    return f"{number:.0f} s" if number >= 1 or number == 0 else "under 1 s"


@register.filter("words")
def replace_underscores(code: str) -> str:
    """Return an internal name, such as an error kind, with spaces in place of underscores."""
    return code.replace("_", " ")
