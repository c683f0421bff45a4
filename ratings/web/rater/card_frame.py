"""The rating page around its item, rendered once for each study and display arm, and filled with the values of a request.

Rendering the template takes longer than all queries of a rating. Its ordinary form, without an answer and without errors,
differs between requests only in a few values. The template is rendered once with a placeholder for each of them.
"""

import re
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

from django.conf import settings
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import mark_safe

from ratings.models import Study
from ratings.web.rater.rating_form import INTERFACE, RatingForm, offers_calculator
from wetbench_site.text import INVISIBLE

_MAX_FRAMES = 500  # a frame has about 10 kB
# No text of a study can contain these: they are random in each process.
_IDS = ("code", "previous", "rater", "submission_id")  # formatted as UUIDs, so that URLs can be built from them
_TEXTS = ("item", "csrf_token", "done", "number", "total", "saved_date", "saved_clock")
_PLACEHOLDERS = {name: str(uuid.uuid4()) for name in _IDS} | {name: uuid.uuid4().hex for name in _TEXTS}
_NAMES = {placeholder: name for name, placeholder in _PLACEHOLDERS.items()}
_ANY_PLACEHOLDER = re.compile(f"({'|'.join(_NAMES)})")
_frames: dict["FrameKey", list[str]] = {}


class FrameKey(NamedTuple):
    """Everything that the page depends on, except the values that are filled in."""

    study: int
    kind: str
    name: str
    question: str
    guide: str
    template: str
    marks: str
    stage: str
    single_keys: bool | None
    has_calculator: bool
    has_previous: bool


def fill_frame(study: Study, template: str, values: Mapping[str, object], **options: Any) -> str:
    """Return the page of an unanswered item. `values` has a value for each placeholder; `options` are fields of FrameKey."""
    key = FrameKey(
        study.pk, study.kind, study.name, study.question, study.guide, template, **options,
        has_calculator=offers_calculator(study), has_previous=values["previous"] is not None,
    )  # fmt: skip
    frame = None if settings.DEBUG else _frames.get(key)
    if frame is None:
        if len(_frames) >= _MAX_FRAMES:
            _frames.clear()
        _frames[key] = frame = _render_frame(study, key)
    # Literal text and names alternate.
    filled = list(frame)
    filled[1::2] = [str(values[name]) for name in frame[1::2]]
    return "".join(filled)


def _render_frame(study: Study, key: FrameKey) -> list[str]:
    """Return the page as a list in which literal text and names of placeholders alternate."""
    of = _PLACEHOLDERS
    code = uuid.UUID(of["code"])
    context = {
        "study": study,
        "rater": {"code": uuid.UUID(of["rater"])},
        "progress": {"done": of["done"], "number": of["number"], "total": of["total"], "is_complete": False},
        "previous": {"code": uuid.UUID(of["previous"])} if key.has_previous else None,
        "saved": {"date": of["saved_date"], "clock": of["saved_clock"]} if key.has_previous else None,
        "partial": key.single_keys is None,
        "single_keys": key.single_keys,
        "code": code,
        "action": reverse("ratings:rate", args=[code]),
        "form": RatingForm(study),
        "submission_id": of["submission_id"],
        "stage": key.stage,
        "marks": key.marks,
        "interface": INTERFACE,
        "item": mark_safe(of["item"]),  # a placeholder
        "csrf_token": of["csrf_token"],
    }
    page = INVISIBLE.sub("\ufffd", render_to_string(key.template, context))
    pieces = _ANY_PLACEHOLDER.split(page)
    pieces[1::2] = [_NAMES[placeholder] for placeholder in pieces[1::2]]
    return pieces
