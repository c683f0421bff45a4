"""What an agent writes before a tool: a thought, a plan with marks, a status. This module defines which parts are stored, and the limits of prompts."""

import re
from collections.abc import Mapping
from typing import Any

SCAFFOLDS = ("plain", "react", "structured", "plan", "plan-status", "fixed")
# The file with the form of a reply; "fixed" uses no tools of its choice and is `pipeline`.
REPLY_FORMS: Mapping[str, str] = {
    "plain": "code.plain.txt",
    "react": "code.react.txt",
    "structured": "code.structured.txt",
    "plan": "code.act.txt",
    "plan-status": "code.plan-status.txt",
}
TOOLS_OF_PIPELINE = ("replace", "run_script", "submit", "quit")
MAX_STORED = {"note": 2_000, "plan": 4_000, "summary": 8_000, "reasoning": 12_000}  # characters
MAX_HISTORY_BYTES = 200_000  # of the steps in full; about 60,000 tokens. Older steps are shown in one line
# The labels whose text is shown again with its step; a plan is kept in memory, where a later one replaces it.
_SHOWN_LABELS = {"react": ("THOUGHT",), "structured": ("REFLECTION", "THOUGHT"), "plan-status": ("STATUS",)}
_WITH_PLAN = ("structured", "plan-status")
_LABEL = re.compile(
    r"^[ \t*#>`]*(REFLECTION|PLAN|STATUS|THOUGHT|SUMMARY)[ \t*`]*:[ \t*]*", re.IGNORECASE | re.MULTILINE
)


def split_note(written: str) -> dict[str, str]:
    """Return the text after each label, by label in capitals; text before the first one under "". A repeated label counts once."""
    pieces = _LABEL.split(written)
    sections = {"": pieces[0].strip()}
    for label, text in zip(pieces[1::2], pieces[2::2], strict=True):
        sections.setdefault(label.upper(), text.strip())
    return sections


def keep_note(scaffold: str, written: str, memory: dict[str, Any]) -> str:
    """Return what the step shows of the text before a tool, and store the plan in `memory` if the scaffold asks for one."""
    sections = split_note(written)
    if scaffold in _WITH_PLAN and (plan := sections.get("PLAN")):
        memory["plan"] = shorten_text(plan, "plan")
    labels = _SHOWN_LABELS.get(scaffold, ())
    texts = [sections[label] for label in labels if sections.get(label)]
    # A model that leaves the label out has written its thought all the same.
    if labels and not texts:
        texts = [sections[""]]
    return shorten_text(" ".join(texts), "note")


def shorten_text(written: str, what: str) -> str:
    """Return the text without a label before it, shortened to what memory stores of its kind."""
    label = _LABEL.match(written)
    text, limit = written[label.end() if label else 0 :].strip(), MAX_STORED[what]
    return text if len(text) <= limit else f"{text[:limit].rstrip()} ..."
