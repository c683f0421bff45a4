"""Every class in a template is used by a CSS rule or a script."""

import re
from collections.abc import Iterator

from django.conf import settings

VALUE = re.compile(r'\bclass="((?:{%.*?%}|{{.*?}}|[^"])*)"', re.DOTALL)


def iter_classes(template: str) -> Iterator[str]:
    """Yield the classes that are written out. Those assembled from values or parts ("pill--{% if") are not."""
    for value in VALUE.findall(template):
        if "--{%" not in value:
            names = re.sub(r"{%.*?%}", " ", re.sub(r"{{.*?}}", "?", value)).split()
            yield from (name for name in names if "?" not in name)


def test_template_classes_are_used_by_a_rule_or_a_script() -> None:
    static = settings.BASE_DIR / "static"
    css = re.sub(r"/\*.*?\*/", "", "".join(path.read_text() for path in static.glob("*.css")), flags=re.DOTALL)
    known = set(re.findall(r"\.([A-Za-z][\w-]*)", css + "".join(path.read_text() for path in static.glob("*.js"))))
    unknown = {
        f"{path.name}: {name}"
        for path in (settings.BASE_DIR / "templates").rglob("*.html")
        for name in iter_classes(path.read_text())
        if name not in known
    }
    assert unknown == set()
