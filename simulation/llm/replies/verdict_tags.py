"""Parse the five tags of a classifier's verdict."""

import re

from simulation.lab.outcomes import Verdict
from simulation.llm.errors import MalformedCompletion
from simulation.llm.replies.cleaning import MAX_REPLY_LENGTH, quote_short

RELEVANCE = ("directly supports goal", "partially supports goal", "does not support goal")
STRENGTH = ("strong", "moderate", "weak")
_VERDICTS = ("valid", "invalid")
_LONGEST_REASONING = 20_000

_OPENS, _ENDS = (re.compile(tag, re.IGNORECASE) for tag in ("<reasoning>", "</reasoning>"))
_NUMBER = re.compile(r"[01](?:\.\d{0,17})?|\.\d{1,17}")


def parse_verdict(text: str) -> Verdict:
    """Return the verdict given by five tags, each once. Raises MalformedCompletion with everything missing, repeated or not allowed."""
    # Checked before any pattern is applied.
    if len(text) > MAX_REPLY_LENGTH:
        raise MalformedCompletion(f"The reply has {len(text)} characters; at most {MAX_REPLY_LENGTH} are read")
    problems: list[str] = []
    reasoning, rest = _split_reasoning(text, problems)
    verdict = _parse_choice(rest, "verdict", _VERDICTS, problems)
    confidence = _parse_confidence(rest, problems)
    relevance = _parse_choice(rest, "goal_relevance", RELEVANCE, problems)
    strength = _parse_choice(rest, "evidence_strength", STRENGTH, problems)
    if problems:
        raise MalformedCompletion(*problems)
    return Verdict(verdict == "valid", reasoning, confidence, relevance, strength)


def _split_reasoning(text: str, problems: list[str]) -> tuple[str, str]:
    """Return the reasoning and the text outside it. Only tags outside the reasoning count."""
    # A verdict quoted inside the reasoning must not count as the answer.
    opens, ends = list(_OPENS.finditer(text)), list(_ENDS.finditer(text))
    if len(opens) != 1 or len(ends) != 1 or ends[0].start() < opens[0].end():
        problems.append("<reasoning> must be there once, and be closed with </reasoning>")
        return "", text
    reasoning = text[opens[0].end() : ends[0].start()].strip()
    if not reasoning:
        problems.append("<reasoning> is empty")
    return reasoning[:_LONGEST_REASONING], text[: opens[0].start()] + text[ends[0].end() :]


def _parse_tag(text: str, name: str, problems: list[str]) -> str | None:
    """Return the content of the tag without emphasis; None unless it occurs exactly once."""
    opens = list(re.finditer(f"<{name}>", text, re.IGNORECASE))
    if len(opens) != 1:
        problems.append(f"<{name}> must be there once, not {len(opens)} times")
        return None
    end = re.compile(f"</{name}>", re.IGNORECASE).search(text, opens[0].end())
    if end is None:
        problems.append(f"<{name}> is not closed with </{name}>")
        return None
    return text[opens[0].end() : end.start()].strip(" \n\t*_`\"'")


def _parse_choice(text: str, name: str, allowed: tuple[str, ...], problems: list[str]) -> str:
    content = _parse_tag(text, name, problems)
    if content is None:
        return ""
    normalised = " ".join(content[:100].lower().replace("_", " ").split()).strip(" .*`")
    if normalised not in allowed:
        problems.append(f"<{name}> is {quote_short(content)}; allowed: {', '.join(allowed)}")
    return normalised


def _parse_confidence(text: str, problems: list[str]) -> float:
    content = _parse_tag(text, "confidence", problems)
    if content is None:
        return 0.0
    if not _NUMBER.fullmatch(content) or float(content) > 1:
        problems.append(f"<confidence> is {quote_short(content)}; allowed: a number from 0.0 to 1.0")
        return 0.0
    return float(content)
