"""Data inside a prompt: as JSON between marks that nobody who wrote the data could know."""

import hashlib
import json
import re
from collections.abc import Iterable
from typing import Any

from simulation.llm.replies.cleaning import clean_text

_TAG = re.compile("<(?=[A-Za-z/!?<])")  # what a prompt set's own tags, or ours, could begin with


def framed(label: str, data: Any) -> str:
    """The data as indented JSON in its frame. The same data gives the same text, whatever order a database keeps keys in."""
    return _frame(label, json.dumps(data, ensure_ascii=False, sort_keys=True, indent=1))


def framed_lines(label: str, lines: Iterable[str]) -> str:
    """Lines of JSON in one frame."""
    return _frame(label, "\n".join(lines))


def line(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, sort_keys=True)


def _frame(label: str, content: str) -> str:
    """The mark is made of a hash of the content: what stands inside cannot hold it, and a replay has the same.

    Inside there is nothing but JSON, so that the first sign of a tag can be written as JSON's escape of it.
    """
    content = _TAG.sub(r"\\u003c", clean_text(content))
    mark = hashlib.sha256(f"{label}\n{content}".encode()).hexdigest()[:16]
    return f"<<<{label} {mark}\n{content}\n{label} {mark}>>>"
