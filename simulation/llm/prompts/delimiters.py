"""Delimit data inside a prompt: JSON between marks that the author of the data cannot predict."""

import hashlib
import json
import re
from collections.abc import Iterable
from typing import Any

from simulation.llm.replies.cleaning import clean_text

# Text in the data could otherwise look like a mark or a tag of the prompt, and be followed as an instruction.
_TAG = re.compile("<(?=[A-Za-z/!?<])")  # possible start of a tag, of the prompt set or ours


def delimit_json(label: str, data: Any) -> str:
    """Return the data as indented JSON between marks. Keys are sorted, because a database may not keep their order."""
    return _delimit(label, json.dumps(data, ensure_ascii=False, sort_keys=True, indent=1))


def delimit_lines(label: str, lines: Iterable[str]) -> str:
    """Return lines of JSON between marks."""
    return _delimit(label, "\n".join(lines))


def format_json_line(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, sort_keys=True)


def _delimit(label: str, content: str) -> str:
    """Return the content between marks with a hash of the content, so it cannot contain its own mark and a replay is identical."""
    # The content is JSON, so the first character of a possible tag can be written as a JSON escape.
    content = _TAG.sub(r"\\u003c", clean_text(content))
    # A hash instead of a random mark: the same prompt must have the same bytes when it is replayed.
    digest = hashlib.sha256(f"{label}\n{content}".encode()).hexdigest()[:16]
    return f"<<<{label} {digest}\n{content}\n{label} {digest}>>>"
