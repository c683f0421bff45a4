"""The rater's form as a browser without scripts and htmx send it, and the pages they receive."""

import uuid
from typing import Any

import pytest
from django.test import Client

from ratings.models import Assignment, Rater
from tests.support.rating_room import open_study

HTMX = {"HX-Request": "true"}
EITHER_WAY = pytest.mark.parametrize("headers", [{}, HTMX], ids=["plain", "htmx"])


def address(assignment: Assignment) -> str:
    return f"/rate/{assignment.code}/"


def onward(rater: Rater) -> str:
    return f"/rate/study/{rater.code}/"


def answer(**changes: Any) -> dict[str, Any]:
    return {"verdict": "yes", "confidence": "4", "submission_id": str(uuid.uuid4()), "revision": "0", **changes}


def page_of(client: Client, assignment: Assignment, **headers: Any) -> str:
    return client.get(address(assignment), **headers).content.decode()


def marked_study(marks: str) -> Rater:
    return open_study(items=3, marks=marks).raters.get(label="R01")
