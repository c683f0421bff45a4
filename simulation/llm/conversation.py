"""Send a prompt, and repair turns, until a reply can be parsed or no turn is left."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from simulation.llm.errors import MalformedCompletion, Refusal, TooLong
from simulation.llm.reply_text import MAX_REPLY_LENGTH, extract_answer
from simulation.providers import CompletionFunction, Prompt
from simulation.providers.base import Completion, Stop

TURNS = 3  # turns of one prompt, repairs included
BYTES_PER_TOKEN = 2  # an estimate without a tokeniser: texts with numbers and units have two to four bytes per token
_MAX_LISTED = 20  # problems listed in a repair turn

Answer = TypeVar("Answer")


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
