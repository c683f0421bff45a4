"""The turns of a question: until a reply can be read, or no more turns are left."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from simulation.llm.errors import MalformedCompletion, Refusal, TooLong
from simulation.llm.replies.cleaning import LONGEST, answer
from simulation.providers import Prompt, Speaker
from simulation.providers.base import Completion, Stop

TURNS = 3
_SHOWN = 20  # problems told in a repair turn

Answer = TypeVar("Answer")


def ask(
    speak: Speaker,
    prompt: Prompt,
    read: Callable[[str], Answer],
    repair: Callable[[str], str],
    repairs: int,
    reason: str,
) -> Answer:
    """What `read` makes of the reply. At most TURNS turns, at most `repairs` of them with the list of what was wrong.

    A reply that is cut off or empty is asked for again in the same words. Refusal, TooLong, or NoUsableAnswer(`reason`);
    Unusable where all that was wrong in the end is that a twin gives itself away.
    """
    wrong = MalformedCompletion()
    for _ in range(TURNS):
        completion = speak(prompt)
        said, missing = whole(completion)
        if missing:
            wrong = MalformedCompletion(missing)
            continue
        try:
            return read(said)
        except MalformedCompletion as error:
            wrong = error
        if repairs == 0:
            break
        repairs -= 1
        prompt = prompt.answered(said, "repair", repair(told(wrong.problems)))
    raise wrong.last(reason)


def whole(completion: Completion) -> tuple[str, str]:
    """The clean text of a reply that came whole, or "" and why it did not. Refusal or TooLong where there is none to come."""
    if completion.stop is Stop.REFUSAL:
        raise Refusal(answer(completion.refusal))
    if completion.stop is Stop.CONTEXT:
        raise TooLong("the prompt is longer than the model takes")
    if completion.stop is Stop.MAX_TOKENS:
        return "", "the reply was cut off at the longest length allowed"
    if completion.stop is Stop.TOOL:
        return "", "the model called a tool, and there is none"
    if len(completion.text) > LONGEST:
        return "", f"the reply has {len(completion.text)} characters; at most {LONGEST} are read"
    said = answer(completion.text)
    return said, "" if said else "the reply was empty"


def told(problems: Sequence[str]) -> str:
    """A list for the model, one problem a line."""
    more = len(problems) - _SHOWN
    return "\n".join([f"- {problem}" for problem in problems[:_SHOWN]] + ([f"- and {more} more"] if more > 0 else []))
