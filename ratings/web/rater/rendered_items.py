"""Cache of items rendered for raters. Items are frozen, so the same HTML serves every rater with the same screen."""

import hashlib
from collections.abc import Collection

from django.core.cache import caches
from django.template.loader import render_to_string

from ratings.blinding import item_view
from ratings.models import Assignment

_CACHE = caches["drawn_items"]


def render_item(assignment: Assignment, stage: str, marked: Collection[str]) -> str:
    """Return the HTML of the item in its layout at this stage of answering."""
    # HTML with marked rows belongs to one rater and is not cached.
    if marked:
        return _render_uncached(assignment, stage, marked)
    key = _hash_cache_key(assignment, stage)
    cached: str | None = _CACHE.get(key)
    if cached is None:
        cached = _render_uncached(assignment, stage, ())
        _CACHE.set(key, cached)
    return cached


def _hash_cache_key(assignment: Assignment, stage: str) -> str:
    """Return a key of everything that affects the HTML: two items with the same content share one entry."""
    # The context affects the HTML only on screens that show it.
    context = assignment.item.context if assignment.with_context else None
    inputs = (assignment.item.payload, context, assignment.layout, assignment.marks, stage)
    return hashlib.sha256(repr(inputs).encode()).hexdigest()


def _render_uncached(assignment: Assignment, stage: str, marked: Collection[str]) -> str:
    context = item_view.build_item_view(
        assignment.item.payload,
        assignment.item.context,
        layout=assignment.layout,
        with_context=assignment.with_context,
        marks=assignment.marks,
        marked=marked,
        stage=stage,
    )
    return render_to_string("ratings/_item.html", context)
