"""Prepare the output of tools for prompts: make control characters visible, and cut long texts."""

import re

from wetbench_site.text import INVISIBLE

MAX_OBSERVATION = 12_000  # characters; about 3,000 tokens of a language model
_SHARE_OF_HEAD = 0.5  # errors are at the end of an output and headings at its start, so both halves count
_HIDDEN = re.compile(f"{INVISIBLE.pattern}|\r")


def show_control_characters(text: str) -> str:
    r"""Return the text with control and invisible characters as escapes, such as \x1b; tabs and line ends stay."""
    return _HIDDEN.sub(
        lambda match: f"\\x{ord(match[0]):02x}" if match[0] < "\u0100" else f"\\u{ord(match[0]):04x}",
        text.replace("\r\n", "\n"),
    )


def cut_observation(text: str, limit: int = MAX_OBSERVATION) -> str:
    """Return a text of at most `limit` characters: the text itself, or its head and tail with the number left out between."""
    if len(text) <= limit:
        return text
    space = max(0, limit - 60)  # the line between head and tail is shorter
    head = int(space * _SHARE_OF_HEAD)
    tail = space - head
    left_out = len(text) - head - tail
    return f"{text[:head]}\n[... {left_out:,} characters left out ...]\n{text[len(text) - tail :]}"
