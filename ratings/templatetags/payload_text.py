"""Template filters for the text of an item."""

import re

from django import template

register = template.Library()


@register.filter
def name_parts(name: str) -> list[str]:
    """Split a CamelCase name where a line may break: "AgaroseGel" gives "Agarose", "Gel"."""
    return re.split(r"(?<=[a-z])(?=[A-Z])", name)
