"""The main navigation's links."""

from django import template
from django.template import Context
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()


@register.simple_tag(takes_context=True)
def nav_link(context: Context, name: str, label: str) -> SafeString:
    """A link that tells whether the page shown lies under it."""
    address = reverse(name)
    here = context["request"].path.startswith(address)
    return format_html(
        '<a href="{}"{}>{}</a>', address, format_html(' aria-current="{}"', "page") if here else "", label
    )
