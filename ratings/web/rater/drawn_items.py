"""Items as raters see them, drawn once and kept by this process: what is frozen looks the same to whoever is next."""

import hashlib
from collections.abc import Collection

from django.core.cache import caches
from django.template.loader import render_to_string

from ratings.blinding import screen
from ratings.models import Assignment

_KEPT = caches["drawn_items"]


def drawn(place: Assignment, stage: str, marked: Collection[str]) -> str:
    """The item in its layout at this stage of answering. One with marks set is its rater's own, and kept for nobody."""
    if marked:
        return _draw(place, stage, marked)
    key = _key(place, stage)
    kept: str | None = _KEPT.get(key)
    if kept is None:
        kept = _draw(place, stage, ())
        _KEPT.set(key, kept)
    return kept


def _key(place: Assignment, stage: str) -> str:
    """Everything that decides the picture, and nothing else: two items that read the same are one here."""
    before = place.item.context if place.with_context else None
    decides = (place.item.payload, before, place.layout, place.marks, stage)
    return hashlib.sha256(repr(decides).encode()).hexdigest()


def _draw(place: Assignment, stage: str, marked: Collection[str]) -> str:
    shown = screen.view(
        place.item.payload,
        place.item.context,
        layout=place.layout,
        with_context=place.with_context,
        marks=place.marks,
        marked=marked,
        stage=stage,
    )
    return render_to_string("ratings/_item.html", shown)
