"""Send a prompt, and repair turns, until a reply can be parsed or no turn is left; the errors if none can be parsed."""

import json
import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

from simulation.lab.errors import LabError
from simulation.providers import CompletionFunction, Prompt
from simulation.providers.base import Completion, Stop

_MAX_SHOWN = 5  # problems in one line of a message
MAX_REPLY_LENGTH = 256 * 1024  # characters of a reply
DEEPEST, MOST_DIGITS = 32, 18
_MOST_OBJECTS, _MOST_UNCLOSED = 1000, 3  # more would take too long, and no honest reply has them
_LINE_ENDS = re.compile("\r\n?")
# C0 without tab and line feed, DEL and C1, unpaired surrogates: PostgreSQL and UTF-8 reject some of them.
# Then invisible characters: zero-width ones, and those that reverse the reading direction.
_NOT_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_THOUGHTS_END = re.compile(r"^[ \t]*</think>[ \t]*$", re.MULTILINE)
# A reply is searched once from the left; only an opening brace before a quotation mark or a closing brace is tried.
_START = re.compile(r'\{(?=\s*["}])')  # a brace in prose is rarely followed by a quotation mark
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[{}\[\]]', re.DOTALL)
TURNS = 3  # turns of one prompt, repairs included
BYTES_PER_TOKEN = 2  # an estimate without a tokeniser: texts with numbers and units have two to four bytes per token
_MAX_LISTED = 20  # problems listed in a repair turn
Answer = TypeVar("Answer")


class Refusal(LabError):  # noqa: N818  # a result, not an error
    """The model refused to answer. `category` is its reason, or "unspecified". The prompt is not sent again."""

    def __init__(self, category: str = "") -> None:
        # 200 characters: it comes from the provider and is stored.
        self.category = category.strip()[:200] or "unspecified"
        super().__init__(f"the model refused to answer: {self.category}")


class MalformedCompletion(LabError):  # noqa: N818  # as above
    """A reply does not have the requested format. `problems` are sent to the model in a repair turn."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__(summarise_problems(problems))

    def final_error(self, reason: str) -> LabError:
        """Return the error to raise when no turn is left."""
        return NoUsableAnswer(reason, self.problems)


class RecognisableTwin(MalformedCompletion):
    """A twin whose form reveals that it is not the original."""

    def final_error(self, reason: str) -> LabError:
        return UnusableTwin(
            f"the form of the twin distinguishes it from the original: {summarise_problems(self.problems)}"
        )


class NoUsableAnswer(LabError):  # noqa: N818  # as above
    """No turn returned a usable answer. `reason` is invalid_transition, no_verdict or no_twin."""

    def __init__(self, reason: str, problems: Sequence[str] = ()) -> None:
        self.reason, self.problems = reason, problems
        super().__init__(f"no usable answer of the model: {summarise_problems(problems)}")


class UnusableTwin(LabError):  # noqa: N818  # as above
    """A twin is well-formed and still unusable: it does not differ, does not explain its error, or reveals it."""


class TooLong(LabError):  # noqa: N818  # as above
    """The prompt exceeds the model's context."""


def summarise_problems(problems: Sequence[str]) -> str:
    """Return the first problems in one line, and how many more there are."""
    more = f" (and {len(problems) - _MAX_SHOWN} more)" if len(problems) > _MAX_SHOWN else ""
    return "; ".join(problems[:_MAX_SHOWN]) + more


def clean_text(text: str) -> str:
    """Return the text with U+FFFD for every character that is not text, and line feeds as line ends."""
    return _NOT_TEXT.sub("�", _LINE_ENDS.sub("\n", text))


def extract_answer(text: str) -> str:
    """Return the final answer of a reply: clean, without the thinking that open models write between tags before it."""
    clean = clean_text(text).strip()
    # Open models write their thinking into the reply; it can contain drafts that look like answers.
    if clean.startswith("<think>"):
        return clean.partition("</think>")[2].strip()
    ends = list(_THOUGHTS_END.finditer(clean))
    # Exactly one closing tag: with several it is unclear where the answer begins.
    return clean[ends[0].end() :].strip() if len(ends) == 1 else clean


def normalise_text(text: str) -> str:
    """Return the text for comparisons: one spelling of each letter and unit, single spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).split())


def normalise_choice(text: str) -> str:
    """Return a chosen word for comparison: capitals, underscores and emphasis vary between models and mean the same."""
    return " ".join(text[:100].lower().replace("_", " ").split()).strip(" .*`")


def quote_short(value: object, most: int = 60) -> str:
    """Return a model's text for use in a message: short, on one line, in quotation marks."""
    text = " ".join(str(value)[: 4 * most].split())  # no more than this is normalised, however long the text is
    return repr(text if len(text) <= most else text[: most - 1] + "…")


def extract_last_object(text: str, expects: str) -> dict[str, Any]:
    """Return the last outermost object of the text. Raises MalformedCompletion if none can be parsed.

    `expects` is a field that distinguishes the object from a part of one that was never closed.
    """
    if len(text) > MAX_REPLY_LENGTH:
        raise MalformedCompletion(f"The reply has {len(text)} characters; at most {MAX_REPLY_LENGTH} are read")
    offset, last_text, unclosed, objects = 0, "", 0, 0
    while (start := _START.search(text, offset)) and unclosed < _MOST_UNCLOSED:
        end = _find_end(text, start.start())
        objects += 1
        if objects > _MOST_OBJECTS:
            raise MalformedCompletion(f"The reply contains more than {_MOST_OBJECTS} objects; answer with one")
        if end:
            # The last complete object counts; the search continues after it.
            last_text, offset = text[start.start() : end], end
        else:
            unclosed, offset = unclosed + 1, start.end()
    data = _decode(last_text) if last_text else {}
    if unclosed and expects not in data:
        # Without the expected field, the object that was found is a part of the one that is not closed.
        raise MalformedCompletion("The JSON object is never closed: a bracket or a quotation mark is missing")
    if not last_text:
        raise MalformedCompletion("There is no JSON object in the reply")
    return data


def _find_end(text: str, start: int) -> int:
    """Return the end of the object that opens at `start`; 0 if it is never closed."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        match text[token.start()]:
            case "{" | "[":
                depth += 1
                # Checked while searching, before the parser recurses.
                if depth > DEEPEST:
                    raise MalformedCompletion(f"The JSON object is nested deeper than {DEEPEST} levels")
            case "}" | "]":
                depth -= 1
                if not depth:
                    return token.end()
    return 0


def _decode(text: str) -> dict[str, Any]:
    try:
        data: dict[str, Any] = json.loads(
            text,
            strict=False,  # a line end inside a string needs no repair turn
            object_pairs_hook=_build_object,
            parse_constant=_reject_constant,
            parse_int=_parse_integer,
            parse_float=_parse_float,
        )
    except json.JSONDecodeError as error:
        near = quote_short(text[max(0, error.pos - 20) : error.pos + 20])
        raise MalformedCompletion(
            f"The JSON object cannot be read: {error.msg} in its line {error.lineno}, column {error.colno}, near {near}"
        ) from None
    return data


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for key, value in pairs:
        key = clean_text(key)  # cleaning may make two keys equal, so they are compared after it
        if key in data:
            raise MalformedCompletion(f"The field {quote_short(key)} occurs twice in one object")
        data[key] = _clean_value(value)
    return data


def _clean_value(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    return [_clean_value(part) for part in value] if isinstance(value, list) else value


def _reject_constant(written: str) -> NoReturn:
    raise MalformedCompletion(f"{written} is not a JSON number; write a number or text")


def _parse_integer(written: str) -> int:
    # Checked as text, before a number of thousands of digits is converted.
    if len(written.lstrip("-")) > MOST_DIGITS:
        raise MalformedCompletion(
            f"The number {quote_short(written, 30)} has more than {MOST_DIGITS} digits; write it as text"
        )
    return int(written)


def _parse_float(written: str) -> float:
    value = float(written)
    if not math.isfinite(value):
        raise MalformedCompletion(f"The number {quote_short(written, 30)} is too large; write it as text")
    return value + 0.0  # no negative zero, which databases do not store


def extract_complete(completion: Completion) -> tuple[str, str]:
    """Return the clean text of a complete reply that is short enough to be parsed, or "" and why there is none.

    Raises Refusal if the model refused, TooLong if the prompt exceeds the model's context.
    """
    if completion.stop is Stop.TOOL:
        return "", "the model called a tool, and there is none"
    if completion.stop is Stop.STOP and len(completion.text) > MAX_REPLY_LENGTH:
        return "", f"the reply has {len(completion.text)} characters; at most {MAX_REPLY_LENGTH} are read"
    return extract_text(completion)


def extract_text(completion: Completion) -> tuple[str, str]:
    """Return the clean text of a complete reply, or "" and why it is incomplete. Raises Refusal or TooLong."""
    # Not sent again: a refusal is an answer, and repeating the request would only cost money.
    if completion.stop is Stop.REFUSAL:
        raise Refusal(extract_answer(completion.refusal))
    if completion.stop is Stop.CONTEXT:
        raise TooLong("the prompt is longer than the model takes")
    if completion.stop is Stop.MAX_TOKENS:
        return "", "the reply was cut off at the longest length allowed"
    text = extract_answer(completion.text)
    return text, "" if text else "the reply was empty"


def request_answer(
    speak: CompletionFunction,
    prompt: Prompt,
    read: Callable[[str], Answer],
    reason: str,
    repair: Callable[..., str] = str,
    repairs: int = 0,
    extract: Callable[[Completion], tuple[str, str]] = extract_complete,
) -> Answer:
    """Return the result of `read` on the reply. Sends at most TURNS turns, of which at most `repairs` list problems.

    A truncated or empty reply is requested again with the same prompt. `repair` returns the text of a repair turn for the
    `problems`. Raises Refusal, TooLong or NoUsableAnswer(`reason`); UnusableTwin if the only remaining problem is that a
    twin is recognisable.
    """
    last_error = MalformedCompletion()
    for _ in range(TURNS):
        text, missing = extract(speak(prompt))
        if missing:
            # Sent again unchanged: a truncated or empty reply has no problem that a repair could name.
            last_error = MalformedCompletion(missing)
            continue
        try:
            return read(text)
        except MalformedCompletion as error:
            last_error = error
        if repairs == 0:
            break
        repairs -= 1
        # The conversation grows by the reply and the list, so the model sees what it wrote.
        prompt = prompt.with_reply(text, "repair", repair(problems=list_problems(last_error.problems)))
    raise last_error.final_error(reason)


def list_problems(problems: Sequence[str]) -> str:
    """Return a list for the model, one problem per line."""
    more = [f"and {len(problems) - _MAX_LISTED} more"] if len(problems) > _MAX_LISTED else []
    return "\n".join(f"- {problem}" for problem in [*problems[:_MAX_LISTED], *more])


def fits_context(prompt: Prompt, context_limit: int | None, max_tokens: int) -> bool:
    """Return whether prompt and reply fit into the context, assuming the most tokens that the prompt can have."""
    # Rounded up, and with the full length of a reply, because a prompt that is too long fails at the provider.
    return context_limit is None or -(-count_bytes(prompt) // BYTES_PER_TOKEN) + max_tokens <= context_limit


def count_bytes(prompt: Prompt) -> int:
    return sum(len(message.text.encode()) for message in prompt.messages) + len(prompt.system.encode())
