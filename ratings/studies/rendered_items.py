"""The HTML of items as raters see them, stored in the database.

An item is frozen, so its HTML depends only on the display arm, the templates and the code. Rendering one takes as long as
everything else in a rating together. HTML of an earlier version of the templates is rendered again when it is needed.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from typing import NamedTuple

import django
from django.conf import settings
from django.db.models import OuterRef, Subquery
from django.template.loader import render_to_string
from django.utils.safestring import SafeString, mark_safe

from ratings.blinding import item_view
from ratings.models import Assignment, Item, RenderedItem, Study
from ratings.protocol import Arm
from wetbench_site.text import INVISIBLE

FIRST_STAGE, FINAL_STAGE = "first", "final"
TWO_STAGE_LAYOUT = item_view.CONFIRM  # items in it are answered at both stages
# Everything that the HTML is made with, from the project's folder.
_RENDERED_WITH = (
    "templates/ratings/_*.html", "ratings/blinding/*.py", "ratings/templatetags/ratings_tags.py", "simulation/lab/quantities.py",
    "simulation/lab/materials.py", "simulation/lab/name_ranges.py", "simulation/lab/notation.py", "simulation/lab/observation_tables.py", "wetbench_site/text.py",
)  # fmt: skip
_KEY = ("item", "layout", "with_context", "marks", "stage")


class Screen(NamedTuple):
    """What the HTML of an item depends on, apart from the item."""

    arm: Arm
    stage: str = FINAL_STAGE


@cache
def compute_version(patterns: tuple[str, ...] = _RENDERED_WITH) -> str:
    """Return the digest of the templates and modules, given as patterns of paths, that stored HTML is rendered with."""
    digest = hashlib.sha256(django.__version__.encode())
    for pattern in patterns:
        for path in sorted(settings.BASE_DIR.glob(pattern)):
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def select_html() -> Subquery:
    """Return an expression for queries of assignments: the stored HTML of the final stage, or None."""
    return _select_stored("html")


def select_layout() -> Subquery:
    """Return an expression for queries of assignments: the layout in which the item is shown, or None or "" if unknown."""
    return _select_stored("layout_shown")


def _select_stored(column: str) -> Subquery:
    arm = {name: OuterRef(name) for name in Arm._fields}
    stored = RenderedItem.objects.filter(item=OuterRef("item"), **arm, stage=FINAL_STAGE, version=compute_version())
    return Subquery(stored.values(column)[:1])


def load_html(assignment: Assignment, stage: str, marked: Collection[str] = ()) -> SafeString:
    """Return the HTML of the item at this stage of answering. It is rendered and stored if there is none.

    If the assignment was loaded with `select_html`, the final stage needs no query.
    """
    screen = Screen(Arm(assignment.layout, assignment.with_context, assignment.marks), stage)
    # HTML with marked rows belongs to one rater. While the site is developed, templates change at any time.
    if marked or settings.DEBUG:
        return mark_safe(
            render_html(assignment.item, screen, marked)
        )  # rendered by a template, which escapes; so is all below
    if stage == FINAL_STAGE and (loaded := getattr(assignment, "html", None)) is not None:
        return mark_safe(str(loaded))
    key = dict(zip(_KEY, (assignment.item_id, *screen.arm, stage), strict=True))
    stored = RenderedItem.objects.filter(**key, version=compute_version()).values_list("html", flat=True).first()
    if stored is not None:
        return mark_safe(stored)
    rendered = build_rendered_item(assignment.item, screen)
    store_rendered_items([rendered])
    return mark_safe(rendered.html)


def render_html(item: Item, screen: Screen, marked: Collection[str] = ()) -> str:
    """Render the item, with these rows marked."""
    view = item_view.build_item_view(
        item.payload, item.context, **screen.arm._asdict(), marked=marked, stage=screen.stage
    )
    return INVISIBLE.sub("\ufffd", render_to_string("ratings/_item.html", view))


def build_rendered_item(item: Item, screen: Screen) -> RenderedItem:
    layout = item_view.choose_layout(item.payload, screen.arm.layout)
    columns = {**screen.arm._asdict(), "stage": screen.stage, "version": compute_version(), "layout_shown": layout}
    return RenderedItem(item=item, html=render_html(item, screen), **columns)


def list_unrendered(study: Study, arms: Collection[Arm]) -> list[int]:
    """Return the items of the study that have no current HTML in one of these arms."""
    stored = RenderedItem.objects.filter(item__study=study, version=compute_version())
    existing = {(item, Arm(*arm)) for item, *arm in stored.values_list("item_id", *Arm._fields)}
    items = study.items.order_by("pk").values_list("pk", flat=True)
    return [item for item in items if any((item, arm) not in existing for arm in arms)]


def render_items(items: Iterable[Item], arms: Collection[Arm]) -> Iterator[RenderedItem]:
    """Yield the HTML of each item in each of these arms, for the stage that raters see first."""
    for item in items:
        for arm in arms:
            two_stage = item_view.choose_layout(item.payload, arm.layout) == TWO_STAGE_LAYOUT
            yield build_rendered_item(item, Screen(arm, FIRST_STAGE if two_stage else FINAL_STAGE))


def store_rendered_items(rendered: Iterable[RenderedItem]) -> None:
    """Store the HTML; what is stored for the same item, arm and stage is replaced."""
    RenderedItem.objects.bulk_create(
        rendered,
        batch_size=200,
        update_conflicts=True,
        unique_fields=_KEY,
        update_fields=["version", "html", "layout_shown"],
    )
