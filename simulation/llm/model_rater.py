"""A model rater, which reads an item's frozen payload and returns one verdict with marked rows."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from simulation.llm.conversation import request_answer
from simulation.llm.errors import MalformedCompletion, TooLong
from simulation.llm.prompt_data import delimit_json, delimit_lines, format_json_line
from simulation.llm.prompt_sets import PromptTexts
from simulation.llm.reply_text import extract_last_object, normalise_text, quote_short
from simulation.providers import CompletionFunction, Message, Prompt

REPAIRS = 1
MAX_MARKS = 200
CANNOT_JUDGE = "cannot judge"
_MAX_REASON_LENGTH = 20_000  # characters; reasons are stored with the rating
_BYTES_PER_TOKEN = 2  # as for the evidence classifier, without a tokeniser
_FIELDS = ("reason", "verdict", "confidence", "marks")


class RatingKind(NamedTuple):
    """What a study's raters decide: the prompt file, and the words for yes and no."""

    file: str
    yes: str
    no: str


PLAUSIBILITY = RatingKind("rating.plausibility.txt", "plausible", "not plausible")
SUFFICIENCY = RatingKind("rating.sufficiency.txt", "sufficient", "not sufficient")


class RatingInput(NamedTuple):
    """The payload as raters see it, the context if they see one, and the rows that can be marked."""

    payload: Mapping[str, Any]
    context: Mapping[str, Any] | None
    rows: Sequence[Mapping[str, str]]  # each with its "key"

    @property
    def mark_keys(self) -> frozenset[str]:
        return frozenset(row["key"] for row in self.rows)


class Judgement(NamedTuple):
    """A model rater's answer. `verdict` and `confidence` are None if it cannot judge; `marks` are keys of displayed rows."""

    verdict: bool | None
    confidence: int | None
    marks: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class LLMRater:
    """Rates items one by one, each in a separate conversation. `question` and `guide` are the study's texts."""

    speak: CompletionFunction
    texts: PromptTexts
    kind: RatingKind
    question: str
    guide: str
    context_limit: int | None
    max_tokens: int

    def rate_item(self, rating_input: RatingInput) -> Judgement:
        """Return the judgement. Raises Refusal, TooLong, or NoUsableAnswer("no_verdict"); there is no default verdict."""
        prompt = self.build_prompt(rating_input)
        if not self._fits_context(prompt):
            raise TooLong(f"the item exceeds the {self.context_limit} tokens that the model reads and writes")
        return request_answer(
            self.speak,
            prompt,
            lambda text: parse_judgement(text, self.kind, rating_input.mark_keys),
            lambda problems: self.texts.fill_in("rating.repair.txt", problems=problems),
            REPAIRS,
            "no_verdict",
        )

    def build_prompt(self, rating_input: RatingInput) -> Prompt:
        """Return the prompt of one item. The same item gives the same bytes."""
        system = self.texts.fill_in(self.kind.file, question=self.question, guide=self.guide or "None.")
        text = self.texts.fill_in(
            "rating.item.txt",
            context=delimit_json("CONTEXT", dict(rating_input.context) if rating_input.context else "not shown"),
            item=delimit_json("ITEM", dict(rating_input.payload)),
            rows=delimit_lines("ROWS", [format_json_line(dict(row)) for row in rating_input.rows]),
        )
        return Prompt(system, (Message("user", text),), "rate", self.texts.sha256, wants_json=True)

    def _fits_context(self, prompt: Prompt) -> bool:
        """Return whether prompt and reply fit into the context, assuming the most tokens that the prompt can have."""
        if self.context_limit is None:
            return True
        size = len(prompt.system.encode()) + sum(len(message.text.encode()) for message in prompt.messages)
        return -(-size // _BYTES_PER_TOKEN) + self.max_tokens <= self.context_limit


def parse_judgement(text: str, kind: RatingKind, keys: Collection[str]) -> Judgement:
    """Return the judgement in a reply's last JSON object. Raises MalformedCompletion with everything missing or not allowed."""
    # The last object, because models draft an answer before the final one.
    data = extract_last_object(text, "verdict")
    # Missing and unknown fields are reported together, so that one repair turn is enough.
    problems = [f'"{name}" is missing' for name in _FIELDS if name not in data]
    problems += [f"there is no field {quote_short(name)}" for name in data if name not in _FIELDS]
    verdict = _parse_verdict(data.get("verdict", ""), kind, problems)
    cannot_judge = verdict == CANNOT_JUDGE
    confidence = None if cannot_judge else _parse_confidence(data.get("confidence", 0), problems)
    marks = _parse_marks(data.get("marks", []), keys, problems)
    reason = _parse_reason(data.get("reason", ""), problems)
    if problems:
        raise MalformedCompletion(*dict.fromkeys(problems))
    return Judgement(None if cannot_judge else verdict == kind.yes, confidence, marks, reason)


def _parse_verdict(value: object, kind: RatingKind, problems: list[str]) -> str:
    allowed = (kind.yes, kind.no, CANNOT_JUDGE)
    # Capitals, underscores and emphasis vary between models and mean the same.
    normalised = " ".join(value[:100].lower().replace("_", " ").split()).strip(" .*`") if isinstance(value, str) else ""
    if normalised not in allowed:
        problems.append(f'"verdict" is {quote_short(value)}; allowed: {", ".join(allowed)}')
    return normalised


def _parse_confidence(value: object, problems: list[str]) -> int | None:
    """Return the confidence: a whole number from 1 to 5, possibly given as text. `true` and 3.0 are invalid."""
    if isinstance(value, str) and value.strip() in ("1", "2", "3", "4", "5"):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 5:
        return value
    problems.append(f'"confidence" is {quote_short(value)}; allowed: a whole number from 1 to 5')
    return None


def _parse_marks(values: object, keys: Collection[str], problems: list[str]) -> tuple[str, ...]:
    """Return the marked keys as displayed, each once.

    Differences in spacing or in the Unicode form of letters are ignored.
    """
    if not isinstance(values, list) or not all(isinstance(mark, str) for mark in values):
        problems.append('"marks" must be a list of keys, empty if nothing looks wrong')
        return ()
    if len(values) > MAX_MARKS:
        problems.append(f'"marks" has {len(values)} entries; at most {MAX_MARKS} are read')
        return ()
    # Compared in a normal form, because a model may write a unit or a dash differently than the page.
    key_of = {normalise_text(key): key for key in keys}
    problems += [
        f'"marks" has {quote_short(mark)}, which is not a key of this item'
        for mark in values
        if normalise_text(mark) not in key_of
    ]
    return tuple(dict.fromkeys(key_of[normalise_text(mark)] for mark in values if normalise_text(mark) in key_of))


def _parse_reason(value: object, problems: list[str]) -> str:
    if not isinstance(value, str) or not value.strip():
        problems.append('"reason" must be a text that says something')
        return ""
    return value.strip()[:_MAX_REASON_LENGTH]
