"""A model rater: the frozen payload in, one verdict with marked rows out."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from simulation.llm.errors import MalformedCompletion, TooLong
from simulation.llm.prompts.framing import framed, framed_lines, line
from simulation.llm.prompts.prompt_sets import PromptTexts
from simulation.llm.replies.cleaning import plain, quoted
from simulation.llm.replies.objects import last_object
from simulation.llm.turns import ask
from simulation.providers import Message, Prompt, Speaker

REPAIRS = 1
MOST_MARKS = 200
CANNOT_JUDGE = "cannot judge"
_LONGEST_REASON = 20_000  # characters; reasons are stored with the rating
_BYTES_PER_TOKEN = 2  # as for the evidence classifier, without a tokeniser
_FIELDS = ("reason", "verdict", "confidence", "marks")


class Kind(NamedTuple):
    """What a study's raters decide: the prompt file, and the words for yes and no."""

    file: str
    yes: str
    no: str


PLAUSIBILITY = Kind("rating.plausibility.txt", "plausible", "not plausible")
SUFFICIENCY = Kind("rating.sufficiency.txt", "sufficient", "not sufficient")


class Shown(NamedTuple):
    """The payload as raters see it, the context if they see one, and the rows by mark key."""

    payload: Mapping[str, Any]
    context: Mapping[str, Any] | None
    rows: Sequence[Mapping[str, str]]  # each with its "key"

    @property
    def keys(self) -> frozenset[str]:
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

    speak: Speaker
    texts: PromptTexts
    kind: Kind
    question: str
    guide: str
    context_limit: int | None
    max_tokens: int

    def rate(self, shown: Shown) -> Judgement:
        """Return the judgement. Raises Refusal, TooLong, or NoUsableAnswer("no_verdict"); there is no default verdict."""
        prompt = self.prompt(shown)
        if not self._fits(prompt):
            raise TooLong(f"the item exceeds the {self.context_limit} tokens that the model reads and writes")
        return ask(
            self.speak,
            prompt,
            lambda text: read_judgement(text, self.kind, shown.keys),
            lambda told: self.texts.fill("rating.repair.txt", problems=told),
            REPAIRS,
            "no_verdict",
        )

    def prompt(self, shown: Shown) -> Prompt:
        """Return the prompt of one item. The same item gives the same bytes."""
        system = self.texts.fill(self.kind.file, question=self.question, guide=self.guide or "None.")
        text = self.texts.fill(
            "rating.item.txt",
            context=framed("CONTEXT", dict(shown.context) if shown.context else "not shown"),
            item=framed("ITEM", dict(shown.payload)),
            rows=framed_lines("ROWS", [line(dict(row)) for row in shown.rows]),
        )
        return Prompt(system, (Message("user", text),), "rate", self.texts.sha256, wants_json=True)

    def _fits(self, prompt: Prompt) -> bool:
        """Return whether prompt and reply fit into the context, assuming the most tokens that the prompt can have."""
        if self.context_limit is None:
            return True
        size = len(prompt.system.encode()) + sum(len(message.text.encode()) for message in prompt.messages)
        return -(-size // _BYTES_PER_TOKEN) + self.max_tokens <= self.context_limit


def read_judgement(text: str, kind: Kind, keys: Collection[str]) -> Judgement:
    """Return the judgement in a reply's last JSON object. Raises MalformedCompletion with everything missing or not allowed."""
    # The last object, because models draft an answer before the final one.
    data = last_object(text, "verdict")
    # Missing and unknown fields are reported together, so that one repair turn is enough.
    problems = [f'"{name}" is missing' for name in _FIELDS if name not in data]
    problems += [f"there is no field {quoted(name)}" for name in data if name not in _FIELDS]
    verdict = _verdict(data.get("verdict", ""), kind, problems)
    cannot_judge = verdict == CANNOT_JUDGE
    confidence = None if cannot_judge else _confidence(data.get("confidence", 0), problems)
    marks = _marks(data.get("marks", []), keys, problems)
    reason = _reason(data.get("reason", ""), problems)
    if problems:
        raise MalformedCompletion(*dict.fromkeys(problems))
    return Judgement(None if cannot_judge else verdict == kind.yes, confidence, marks, reason)


def _verdict(written: object, kind: Kind, problems: list[str]) -> str:
    allowed = (kind.yes, kind.no, CANNOT_JUDGE)
    # Capitals, underscores and emphasis vary between models and mean the same.
    normalised = (
        " ".join(written[:100].lower().replace("_", " ").split()).strip(" .*`") if isinstance(written, str) else ""
    )
    if normalised not in allowed:
        problems.append(f'"verdict" is {quoted(written)}; allowed: {", ".join(allowed)}')
    return normalised


def _confidence(written: object, problems: list[str]) -> int | None:
    """Return a whole number from 1 to 5, also given as text; true and 3.0 are invalid."""
    if isinstance(written, str) and written.strip() in ("1", "2", "3", "4", "5"):
        return int(written)
    if isinstance(written, int) and not isinstance(written, bool) and 1 <= written <= 5:
        return written
    problems.append(f'"confidence" is {quoted(written)}; allowed: a whole number from 1 to 5')
    return None


def _marks(written: object, keys: Collection[str], problems: list[str]) -> tuple[str, ...]:
    """Return displayed keys, each once; other spacing or another spelling of a letter gives the same key."""
    if not isinstance(written, list) or not all(isinstance(mark, str) for mark in written):
        problems.append('"marks" must be a list of keys, empty if nothing looks wrong')
        return ()
    if len(written) > MOST_MARKS:
        problems.append(f'"marks" has {len(written)} entries; at most {MOST_MARKS} are read')
        return ()
    # Compared in a normal form, because a model may write a unit or a dash differently than the page.
    key_of = {plain(key): key for key in keys}
    problems += [
        f'"marks" has {quoted(mark)}, which is no key of this item' for mark in written if plain(mark) not in key_of
    ]
    return tuple(dict.fromkeys(key_of[plain(mark)] for mark in written if plain(mark) in key_of))


def _reason(written: object, problems: list[str]) -> str:
    if not isinstance(written, str) or not written.strip():
        problems.append('"reason" must be a text that says something')
        return ""
    return written.strip()[:_LONGEST_REASON]
