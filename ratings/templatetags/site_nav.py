"""Links of the main navigation."""

from django import template
from django.template import Context
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()


@register.simple_tag(takes_context=True)
def nav_link(context: Context, name: str, label: str) -> SafeString:
    """Return a link that is marked as current if it leads to the current page or a page above it."""
    address = reverse(name)
    # By prefix, so that the pages below a section keep its link highlighted.
    is_current = context["request"].path.startswith(address)
    return format_html(
        '<a href="{}"{}>{}</a>', address, format_html(' aria-current="{}"', "page") if is_current else "", label
    )
