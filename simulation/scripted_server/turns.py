"""One answer of a model: its text, its tokens, why it stopped, and the faults of all that."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from simulation.scripted_server import anthropic_wire
from simulation.scripted_server.questions import Answer, Question, Tokens, encoded, tokens_of

if TYPE_CHECKING:
    from simulation.scripted_server.rules import Rule


def plain(question: Question, text: str, prompt: Tokens, whole: bool = False) -> Answer:
    """The answer with this text, cut at the request's `max_tokens` (thinking counts) unless it is to stay whole."""
    hidden = min(question.hidden, question.max_tokens)
    room = (question.max_tokens - hidden) * 4
    data = encoded(text)
    cut = len(data) > room and not whole
    if cut:
        text = data[:room].decode("utf-8", "ignore")
    thinking = anthropic_wire.thinking_text(hidden) if question.shows_thinking else ""
    tokens = prompt._replace(output=hidden + tokens_of(text), reasoning=hidden)
    return Answer(text, "max_tokens" if cut else "stop", tokens, question.model, thinking)


def _with_text(answer: Answer, text: str | None, stop: str) -> Answer:
    tokens = answer.tokens._replace(output=answer.tokens.reasoning + tokens_of(text or ""))
    return answer._replace(text=text, stop=stop, tokens=tokens)


def _empty(answer: Answer, question: Question, rule: "Rule") -> Answer:
    """No content; variant "null" writes it so, "spaces" as a few blanks and line ends."""
    return _with_text(answer, {"null": None, "spaces": " \n \n"}.get(rule.variant, ""), "stop")


def _refusal(answer: Answer, question: Question, rule: "Rule") -> Answer:
    """Variant "content_filter" has OpenAI's filter cut in instead of the model refusing in words."""
    return _with_text(answer, None, "filtered" if rule.variant == "content_filter" else "refusal")


def _truncated(answer: Answer, question: Question, rule: "Rule") -> Answer:
    text = answer.text or ""
    return _with_text(answer, text[: len(text) // 2], "max_tokens")


def _thinking_only(answer: Answer, question: Question, rule: "Rule") -> Answer:
    """Nothing but thought; variant "max_tokens" says that it ate all the room there was."""
    thinking = answer.thinking or anthropic_wire.thinking_text(50)
    tokens = answer.tokens._replace(reasoning=tokens_of(thinking))
    stop = "max_tokens" if rule.variant == "max_tokens" else "stop"
    return _with_text(answer._replace(thinking=thinking, tokens=tokens), None, stop)


def _context_stop(answer: Answer, question: Question, rule: "Rule") -> Answer:
    """The context was full before the answer was complete: a stop reason of Anthropic's, a length of the others."""
    return _with_text(answer, (answer.text or "")[:20], "context")


def _no_usage(answer: Answer, question: Question, rule: "Rule") -> Answer:
    return answer._replace(told=False)


def _rerouted(answer: Answer, question: Question, rule: "Rule") -> Answer:
    """Another model answers than the one asked for, and only the envelope says so."""
    return answer._replace(served_model=rule.variant or "some-other-model")


ANSWERS: Mapping[str, Callable[[Answer, Question, "Rule"], Answer]] = {
    "empty": _empty,
    "refusal": _refusal,
    "truncated": _truncated,
    "thinking_only": _thinking_only,
    "context_stop": _context_stop,
    "no_usage": _no_usage,
    "rerouted": _rerouted,
}
