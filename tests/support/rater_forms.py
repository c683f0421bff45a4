"""The rater's form as a browser without scripts and htmx send it, and the pages they receive."""

import uuid
from typing import Any

import pytest
from django.test import Client

from ratings.models import Assignment, Rater
from tests.support.rating_room import create_open_study

HTMX = {"HX-Request": "true"}
WITH_AND_WITHOUT_HTMX = pytest.mark.parametrize("headers", [{}, HTMX], ids=["plain", "htmx"])


def get_rating_url(assignment: Assignment) -> str:
    return f"/rate/{assignment.code}/"


def get_next_item_url(rater: Rater) -> str:
    return f"/rate/study/{rater.code}/"


def build_answer(**changes: Any) -> dict[str, Any]:
    return {"verdict": "yes", "confidence": "4", "submission_id": str(uuid.uuid4()), "revision": "0", **changes}


def get_rating_page(client: Client, assignment: Assignment, **headers: Any) -> str:
    return client.get(get_rating_url(assignment), **headers).content.decode()


def create_rater_with_marks(marks: str) -> Rater:
    return create_open_study(items=3, marks=marks).raters.get(label="R01")
