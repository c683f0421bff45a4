"""The evidence classifier as a language model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from simulation.lab.outcomes import Verdict
from simulation.lab.roles import TranscriptStep
from simulation.llm.errors import MalformedCompletion, TooLong
from simulation.llm.prompts.framing import framed, framed_lines, line
from simulation.llm.prompts.prompt_sets import PromptTexts
from simulation.llm.prompts.records import parts, record
from simulation.llm.replies.tags import read_verdict
from simulation.llm.turns import ask
from simulation.providers import Message, Prompt, Speaker

REPAIRS = 1  # repair turns
MOST_PARTS = 20  # parts of a record, which bounds the calls of one verdict
_BYTES_PER_TOKEN = 2  # without a tokeniser: texts with numbers and units have two to four bytes per token


@dataclass(frozen=True)
class LLMEvidenceClassifier:
    """Judges a record by prompting a model. A record beyond `context_limit` tokens is summarised first, which the verdict states."""

    speak: Speaker
    texts: PromptTexts
    context_limit: int | None
    max_tokens: int

    def judge(self, goal: str, transcript: Sequence[TranscriptStep]) -> Verdict:
        """Return the verdict. Raises Refusal, TooLong if not even a summary fits, or NoUsableAnswer; there is no default verdict."""
        # Once as a whole if it fits: a summary can lose what a verdict depends on.
        prompt = self._question(goal, record(transcript))
        if self._fits(prompt):
            return self._verdict(prompt)
        prompt = self._question(goal, self._summary(goal, transcript))
        if not self._fits(prompt):
            raise TooLong(f"not even the summary of the record fits the {self.context_limit} tokens the model reads")
        return replace(self._verdict(prompt), summarised=True)

    def _verdict(self, prompt: Prompt) -> Verdict:
        return ask(
            self.speak,
            prompt,
            read_verdict,
            lambda told: self.texts.fill("classification.repair.txt", problems=told),
            REPAIRS,
            "no_verdict",
        )

    def _question(self, goal: str, observation: str) -> Prompt:
        text = self.texts.fill(
            "classification.txt",
            observation=observation,
            interpretation=framed("GOAL", goal),
            examples=self.texts.examples(),
        )
        return self._prompt(text, "verdict")

    def _summary(self, goal: str, transcript: Sequence[TranscriptStep]) -> str:
        """Return the summaries of the record's parts in order, one call for each."""
        room = self._room(goal)
        pieces = parts(transcript, room)
        # Checked before the first call, so that a hopeless record costs nothing.
        if len(pieces) > MOST_PARTS:
            raise TooLong(
                f"the record would have to be summarised in {len(pieces)} parts; at most {MOST_PARTS} are tried"
            )
        prompts = [self._summary_prompt(goal, piece) for piece in pieces]
        if not all(map(self._fits, prompts)):
            raise TooLong(f"a single step of the record exceeds the {self.context_limit} tokens the model reads")
        # No repair: a summary has no format that could be wrong.
        summaries = [ask(self.speak, prompt, _something, str, 0, "no_verdict") for prompt in prompts]
        lines = [line({"part": at, "of": len(summaries), "summary": text}) for at, text in enumerate(summaries, 1)]
        return framed_lines("SUMMARY", lines)

    def _summary_prompt(self, goal: str, observation: str) -> Prompt:
        text = self.texts.fill("summary.txt", observation=observation, interpretation=framed("GOAL", goal))
        return self._prompt(text, "summary")

    def _prompt(self, written: str, purpose: str) -> Prompt:
        return Prompt("", (Message("user", written),), purpose, self.texts.sha256)

    def _room(self, goal: str) -> int:
        # The frame without any line has the length of everything but the record.
        """Return the bytes of a record that fit into a summary prompt."""
        frame = self._summary_prompt(goal, framed_lines("RECORD", []))
        room = (self.context_limit or 0) - self.max_tokens
        return max(1, room * _BYTES_PER_TOKEN - _bytes(frame))

    def _fits(self, prompt: Prompt) -> bool:
        """Return whether prompt and reply fit into the context, assuming the most tokens that the prompt can have."""
        if self.context_limit is None:
            return True
        # Rounded up, and with the full length of a reply, because a prompt that is too long fails at the provider.
        return -(-_bytes(prompt) // _BYTES_PER_TOKEN) + self.max_tokens <= self.context_limit


def _bytes(prompt: Prompt) -> int:
    return sum(len(message.text.encode()) for message in prompt.messages) + len(prompt.system.encode())


def _something(text: str) -> str:
    """Return a summary. Raises MalformedCompletion if it is empty."""
    if not text.strip():
        raise MalformedCompletion("The summary is empty")
    return text
