"""A model rater, which reads an item's frozen payload and returns one verdict with marked rows."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from simulation.llm import conversation, reply_schemas
from simulation.llm.prompt_data import delimit_json, delimit_lines
from simulation.llm.prompt_sets import PromptTexts
from simulation.llm.reply_schemas import CANNOT_JUDGE
from simulation.providers import CompletionFunction, Prompt
from simulation.providers.base import ReplySchema

REPAIRS = 1
MAX_MARKS = 200
_MAX_REASON_LENGTH = 20_000  # characters; reasons are stored with the rating


class RatingKind(NamedTuple):
    """What a study's raters decide: the prompt file, and the words for yes and no."""

    file: str
    yes: str
    no: str

    @property
    def schema(self) -> reply_schemas.Schema:
        return reply_schemas.build_rating_schema(self.yes, self.no)


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
        if not conversation.fits_context(prompt, self.context_limit, self.max_tokens):
            raise conversation.TooLong(
                f"the item exceeds the {self.context_limit} tokens that the model reads and writes"
            )
        read = partial(parse_judgement, kind=self.kind, keys=rating_input.mark_keys)
        repair = partial(self.texts.fill_in, "rating.repair.txt")
        return conversation.request_answer(self.speak, prompt, read, "no_verdict", repair, REPAIRS)

    def build_prompt(self, rating_input: RatingInput) -> Prompt:
        """Return the prompt of one item. The same item gives the same bytes."""
        system = self.texts.fill_in(self.kind.file, question=self.question, guide=self.guide or "None.")
        text = self.texts.fill_in(
            "rating.item.txt",
            context=delimit_json("CONTEXT", dict(rating_input.context) if rating_input.context else "not shown"),
            item=delimit_json("ITEM", dict(rating_input.payload)),
            rows=delimit_lines("ROWS", map(dict, rating_input.rows)),
        )
        # The instructions describe the same object, so the schema needs no note.
        return self.texts.build_prompt(
            system, text, "rate", wants_json=True, schema=ReplySchema("rating", self.kind.schema)
        )


def parse_judgement(text: str, kind: RatingKind, keys: Collection[str]) -> Judgement:
    """Return the judgement in a reply's last JSON object. Raises MalformedCompletion with everything missing or not allowed."""
    # The last object, because models draft an answer before the final one.
    data = conversation.extract_last_object(text, "verdict")
    # Missing and unknown fields are reported together, so that one repair turn is enough.
    fields = reply_schemas.list_fields(kind.schema)
    problems = [f'"{name}" is missing' for name in fields if name not in data]
    problems += [f"there is no field {conversation.quote_short(name)}" for name in data if name not in fields]
    verdict, allowed = data.get("verdict", ""), reply_schemas.list_allowed(kind.schema, "verdict")
    normalised = conversation.normalise_choice(verdict) if isinstance(verdict, str) else ""
    if normalised not in allowed:
        problems.append(f'"verdict" is {conversation.quote_short(verdict)}; allowed: {", ".join(allowed)}')
    cannot_judge = normalised == CANNOT_JUDGE
    confidence = None if cannot_judge else _parse_confidence(data.get("confidence", 0), problems)
    marks = _parse_marks(data.get("marks", []), keys, problems)
    reason = data.get("reason", "")
    if not isinstance(reason, str) or not reason.strip():
        problems.append('"reason" must be a text that says something')
    if problems:
        raise conversation.MalformedCompletion(*dict.fromkeys(problems))
    is_yes = None if cannot_judge else normalised == kind.yes
    return Judgement(is_yes, confidence, marks, reason.strip()[:_MAX_REASON_LENGTH])


def _parse_confidence(value: object, problems: list[str]) -> int | None:
    """Return the confidence: a whole number from 1 to 5, possibly given as text. `true` and 3.0 are invalid."""
    if isinstance(value, str) and value.strip() in map(str, reply_schemas.CONFIDENCES):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value in reply_schemas.CONFIDENCES:
        return value
    problems.append(f'"confidence" is {conversation.quote_short(value)}; allowed: a whole number from 1 to 5')
    return None


def _parse_marks(values: object, keys: Collection[str], problems: list[str]) -> tuple[str, ...]:
    """Return the marked keys as displayed, each once."""
    if not isinstance(values, list) or not all(isinstance(mark, str) for mark in values):
        problems.append('"marks" must be a list of keys, empty if nothing looks wrong')
        return ()
    if len(values) > MAX_MARKS:
        problems.append(f'"marks" has {len(values)} entries; at most {MAX_MARKS} are read')
        return ()
    # Compared in a normal form, because a model may write a unit or a dash differently than the page.
    key_of = {conversation.normalise_text(key): key for key in keys}
    marks: dict[str, None] = {}
    for mark in values:
        if key := key_of.get(conversation.normalise_text(mark)):
            marks[key] = None
        else:
            problems.append(f'"marks" has {conversation.quote_short(mark)}, which is not a key of this item')
    return tuple(marks)
