"""How the text of an item is set."""

import re

from django import template

register = template.Library()


@register.filter
def name_parts(name: str) -> list[str]:
    """A name in capitals-inside style cut where a line may break: "AgaroseGel" is "Agarose", "Gel"."""
    return re.split(r"(?<=[a-z])(?=[A-Z])", name)
