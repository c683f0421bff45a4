"""Edits of a valid answer: additional words, other names, other values."""

import json
import re
from collections.abc import Callable
from typing import Any

from simulation.scripted_server.answers import OUTCOMES, Role


def add_words(text: str, role: Role, words: str) -> str:
    """Return the answer with more words in its explanation."""
    if role in OUTCOMES:
        return edit_json(text, lambda outcome: outcome.update(reasoning=f"{words} {outcome['reasoning']}"))
    if role is Role.CLASSIFIER:
        return text.replace("<reasoning>", f"<reasoning>{_strip_tags(words)} ", 1)
    # The words become a thought before the action, whether or not the answer has one.
    return f"THOUGHT: {words}\n{text.partition('THOUGHT: ')[2] or text}"


def add_to_names(text: str, role: Role, words: str) -> str:
    """Return an outcome with these words in its first material and first observation, or another answer unchanged."""
    return edit_json(text, lambda outcome: _rename_first(outcome, words)) if role in OUTCOMES else text


def _rename_first(outcome: dict[str, Any], words: str) -> None:
    for material in outcome["new_materials"][:1]:
        # 60 and 200 characters: inside the limits of the parser, so that the words and not the length are tested.
        material["name"] = f"{material['name'][:60]} {words}"[:200]
        material["properties"] = {**material["properties"], "label": words}
    outcome["new_observations"][0]["description"] += f" {words}"
    outcome["new_observations"][0]["value"] = words


def put_value(outcome: dict[str, Any], value: Any) -> None:
    """Set the purity of the first material and the value of the first observation, whatever the value's type."""
    for material in outcome["new_materials"][:1]:
        material["properties"] = {**material["properties"], "purity": value}
    outcome["new_observations"][0]["value"] = value


def edit_json(text: str, change: Callable[[dict[str, Any]], object]) -> str:
    outcome = json.loads(text)
    change(outcome)
    return json.dumps(outcome, ensure_ascii=False)


def replace_action(text: str, name: str, parameters: str) -> str:
    # The lines are replaced in place; the rest of the answer stays valid.
    changed = re.sub(r"^ACTION: .*$", f"ACTION: {name}", text, flags=re.MULTILINE)
    return re.sub(r"^PARAMETERS:.*$", f"PARAMETERS: {parameters}", changed, flags=re.MULTILINE)


def _strip_tags(words: str) -> str:
    """Return the words without the tags of a classifier's answer."""
    # Closing tags in the words would end the explanation early and test something else.
    return re.sub(r"</?(verdict|confidence|reasoning|goal_relevance|evidence_strength)>", "", words)
