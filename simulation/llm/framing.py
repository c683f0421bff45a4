"""Data inside a prompt: as JSON between marks that nobody who wrote the data could know."""

import hashlib
import json
from collections.abc import Iterable
from typing import Any


def framed(label: str, data: Any) -> str:
    """The data as indented JSON in its frame. The same data gives the same text, whatever order a database keeps keys in."""
    return _frame(label, json.dumps(data, ensure_ascii=False, sort_keys=True, indent=1))


def framed_lines(label: str, lines: Iterable[str]) -> str:
    """Lines of JSON in one frame."""
    return _frame(label, "\n".join(lines))


def line(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, sort_keys=True)


def _frame(label: str, content: str) -> str:
    """The mark is made of a hash of the content: what stands inside cannot hold it, and a replay has the same."""
    mark = hashlib.sha256(f"{label}\n{content}".encode()).hexdigest()[:16]
    return f"<<<{label} {mark}\n{content}\n{label} {mark}>>>"
