"""Faults of an answer's text, token counts and stop reason as a whole."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from simulation.scripted_server.answers import make_thinking
from simulation.scripted_server.questions import Answer, Question, count_tokens

if TYPE_CHECKING:
    from tests.support.model_server.rules import Rule


def _with_text(answer: Answer, text: str | None, stop: str) -> Answer:
    # The token count must match the new text, because callers compare the two.
    tokens = answer.tokens._replace(output=answer.tokens.reasoning + count_tokens(text or ""))
    return answer._replace(text=text, stop=stop, tokens=tokens)


def _make_empty(answer: Answer, question: Question, rule: "Rule") -> Answer:
    """Return an empty answer: None with variant "null", only spaces and line ends with "spaces", otherwise ""."""
    return _with_text(answer, {"null": None, "spaces": " \n \n"}.get(rule.variant, ""), "stop")


def _make_refusal(answer: Answer, question: Question, rule: "Rule") -> Answer:
    """Return a refusal by the model; with variant "content_filter", a refusal by OpenAI's content filter."""
    return _with_text(answer, None, "filtered" if rule.variant == "content_filter" else "refusal")


def _truncate_answer(answer: Answer, question: Question, rule: "Rule") -> Answer:
    text = answer.text or ""
    return _with_text(answer, text[: len(text) // 2], "max_tokens")


def _thinking_only(answer: Answer, question: Question, rule: "Rule") -> Answer:
    """Return thinking without any text. With variant "max_tokens", the stop reason is that all tokens were used."""
    thinking = answer.thinking or make_thinking(50)
    tokens = answer.tokens._replace(reasoning=count_tokens(thinking))
    stop = "max_tokens" if rule.variant == "max_tokens" else "stop"
    return _with_text(answer._replace(thinking=thinking, tokens=tokens), None, stop)


def _context_stop(answer: Answer, question: Question, rule: "Rule") -> Answer:
    """Return the first 20 characters, as if the context were full. Only Anthropic has its own stop reason for this."""
    return _with_text(answer, (answer.text or "")[:20], "context")


def _drop_usage(answer: Answer, question: Question, rule: "Rule") -> Answer:
    return answer._replace(reports_usage=False)


def _reroute_model(answer: Answer, question: Question, rule: "Rule") -> Answer:
    """Return the same answer with an envelope that names another model than the requested one."""
    return answer._replace(served_model=rule.variant or "some-other-model")


ANSWERS: Mapping[str, Callable[[Answer, Question, "Rule"], Answer]] = {
    "empty": _make_empty,
    "refusal": _make_refusal,
    "truncated": _truncate_answer,
    "thinking_only": _thinking_only,
    "context_stop": _context_stop,
    "no_usage": _drop_usage,
    "rerouted": _reroute_model,
}
