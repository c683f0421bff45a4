"""The evidence classifier as a language model, and the parser of its verdict in five tags."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from simulation.lab.outcomes import Verdict
from simulation.lab.roles import TranscriptStep
from simulation.llm import conversation
from simulation.llm.prompt_data import delimit_json, delimit_lines, render_record, split_record
from simulation.llm.prompt_sets import PromptTexts, find_changing_part
from simulation.llm.reply_schemas import VERDICT, list_allowed, list_fields
from simulation.providers import CompletionFunction, Prompt
from simulation.providers.base import ReplySchema

REPAIRS = 1  # repair turns
MAX_PARTS = 20  # the most parts into which a record is split; limits the calls for one verdict
VALID = list_allowed(VERDICT, "verdict")[0].lower()
_LONGEST_REASONING = 20_000

_OPENS, _ENDS = (re.compile(tag, re.IGNORECASE) for tag in ("<reasoning>", "</reasoning>"))
_NUMBER = re.compile(r"[01](?:\.\d{0,17})?|\.\d{1,17}")


@dataclass(frozen=True)
class LLMEvidenceClassifier:
    """Judges a record by prompting a model. A record longer than `context_limit` tokens is summarised first."""

    speak: CompletionFunction
    texts: PromptTexts
    context_limit: int | None
    max_tokens: int

    def judge_evidence(self, goal: str, transcript: Sequence[TranscriptStep]) -> Verdict:
        """Return the verdict. Raises Refusal, TooLong if not even a summary fits, or NoUsableAnswer; there is no default verdict."""
        # Judge the whole record if it fits: a summary can lose what a verdict depends on.
        prompt = self._build_question(goal, render_record(transcript))
        is_whole = self._fits_context(prompt)
        if not is_whole:
            prompt = self._build_question(goal, self._summarise_record(goal, transcript))
            if not self._fits_context(prompt):
                raise conversation.TooLong(
                    f"not even the summary of the record fits the {self.context_limit} tokens the model reads"
                )
        repair = partial(self.texts.fill_in, "classification.repair.txt")
        verdict = conversation.request_answer(self.speak, prompt, parse_verdict, "no_verdict", repair, REPAIRS)
        return verdict if is_whole else replace(verdict, summarised=True)

    def _build_question(self, goal: str, observation: str) -> Prompt:
        parts = self.texts.split_parts(
            "classification.txt",
            observation=observation,
            interpretation=delimit_json("GOAL", goal),
            examples=self.texts.render_examples(),
        )
        note = self.texts.files.get("classification.schema.txt", "").strip()
        return self.texts.build_prompt(
            "",
            "".join(part.text for part in parts),
            "verdict",
            schema=ReplySchema("verdict", VERDICT, note) if note else None,
            # The instructions before the first value are the same for every record.
            stable_ends=(find_changing_part(parts, stable=("examples",))[1],),
        )

    def _summarise_record(self, goal: str, transcript: Sequence[TranscriptStep]) -> str:
        """Return the summaries of the record's parts in order, one call for each."""
        # The prompt with an empty record has the length of everything but the record.
        frame = self._build_summary_prompt(goal, delimit_lines("RECORD", []))
        room = ((self.context_limit or 0) - self.max_tokens) * conversation.BYTES_PER_TOKEN - conversation.count_bytes(
            frame
        )
        pieces = split_record(transcript, max(1, room))
        # Checked before the first call, so that a hopeless record costs nothing.
        if len(pieces) > MAX_PARTS:
            raise conversation.TooLong(
                f"the record would have to be summarised in {len(pieces)} parts; at most {MAX_PARTS} are tried"
            )
        prompts = [self._build_summary_prompt(goal, piece) for piece in pieces]
        if not all(map(self._fits_context, prompts)):
            raise conversation.TooLong(
                f"a single step of the record exceeds the {self.context_limit} tokens the model reads"
            )
        # No repair: a summary has no format that could be wrong.
        summaries = [conversation.request_answer(self.speak, prompt, str, "no_verdict") for prompt in prompts]
        return delimit_lines(
            "SUMMARY", [{"part": at, "of": len(summaries), "summary": text} for at, text in enumerate(summaries, 1)]
        )

    def _build_summary_prompt(self, goal: str, observation: str) -> Prompt:
        text = self.texts.fill_in("summary.txt", observation=observation, interpretation=delimit_json("GOAL", goal))
        return self.texts.build_prompt("", text, "summary")

    def _fits_context(self, prompt: Prompt) -> bool:
        return conversation.fits_context(prompt, self.context_limit, self.max_tokens)


def parse_verdict(text: str) -> Verdict:
    """Return the verdict given by five tags, each once, or by an object with fields of the same names.

    Raises MalformedCompletion with everything missing, repeated or not allowed.
    """
    # Checked before any pattern is applied.
    if len(text) > conversation.MAX_REPLY_LENGTH:
        raise conversation.MalformedCompletion(
            f"The reply has {len(text)} characters; at most {conversation.MAX_REPLY_LENGTH} are read"
        )
    problems: list[str] = []
    is_object = text.startswith("{") and text.endswith("}")
    contents = _read_object(text, problems) if is_object else _read_tags(text, problems)
    verdict = _parse_choice(contents, "verdict", problems)
    confidence = contents["confidence"]
    if confidence is not None and (not _NUMBER.fullmatch(confidence) or float(confidence) > 1):
        problems.append(f"<confidence> is {conversation.quote_short(confidence)}; allowed: a number from 0.0 to 1.0")
    relevance = _parse_choice(contents, "goal_relevance", problems)
    strength = _parse_choice(contents, "evidence_strength", problems)
    if problems:
        raise conversation.MalformedCompletion(*problems)
    return Verdict(
        verdict == VALID,
        (contents["reasoning"] or "")[:_LONGEST_REASONING],
        float(confidence or 0),
        relevance,
        strength,
    )


def _read_object(text: str, problems: list[str]) -> dict[str, str | None]:
    """Return the fields of a reply that is one JSON object, None for missing ones."""
    data = conversation.extract_last_object(text, "verdict")
    problems += [f'"{name}" is missing' for name in list_fields(VERDICT) if name not in data]
    if "reasoning" in data and (not isinstance(data["reasoning"], str) or not data["reasoning"].strip()):
        problems.append('"reasoning" must be a text that says something')
    return {name: str(data[name]).strip() if name in data else None for name in list_fields(VERDICT)}


def _read_tags(text: str, problems: list[str]) -> dict[str, str | None]:
    """Return the contents of the five tags, None for one that does not occur exactly once."""
    reasoning, rest = _split_reasoning(text, problems)
    names = [name for name in list_fields(VERDICT) if name != "reasoning"]
    return {"reasoning": reasoning, **{name: _parse_tag(rest, name, problems) for name in names}}


def _split_reasoning(text: str, problems: list[str]) -> tuple[str, str]:
    """Return the reasoning and the text outside it. Only tags outside count: the reasoning may quote a verdict."""
    opens, ends = list(_OPENS.finditer(text)), list(_ENDS.finditer(text))
    if len(opens) != 1 or len(ends) != 1 or ends[0].start() < opens[0].end():
        problems.append("<reasoning> must be there once, and be closed with </reasoning>")
        return "", text
    reasoning = text[opens[0].end() : ends[0].start()].strip()
    if not reasoning:
        problems.append("<reasoning> is empty")
    return reasoning, text[: opens[0].start()] + text[ends[0].end() :]


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


def _parse_choice(contents: dict[str, str | None], name: str, problems: list[str]) -> str:
    content, allowed = contents[name], list_allowed(VERDICT, name)
    word = conversation.normalise_choice(content or "")
    if content is not None and word not in map(str.lower, allowed):
        problems.append(f"<{name}> is {conversation.quote_short(content)}; allowed: {', '.join(allowed).lower()}")
    return word
