"""The agent, spoken through a language model: at once, thought before action, or after a plan."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simulation.lab import telling, wire
from simulation.lab.actions import Action, ActionType
from simulation.lab.bench import REJECTIONS_ALLOWED
from simulation.lab.errors import LabError
from simulation.lab.roles import Situation
from simulation.llm.errors import Refusal, TooLong
from simulation.llm.prompts import histories
from simulation.llm.prompts.prompt_sets import PromptTexts
from simulation.llm.replies.cleaning import answer
from simulation.providers import Message, Prompt, Speaker
from simulation.providers.base import Stop

FORMS = {"plain": "agent.plain.txt", "react": "agent.react.txt", "plan": "agent.act.txt"}
TURNS = 3  # how often one and the same prompt is said before a cut-off or empty answer is the agent's mistake
_LONGEST = {"thought": 2_000, "plan": 4_000, "summary": 8_000}  # characters that are remembered
_SAID = {"plan": "plan", "summary": "summary of the history"}
_ACTION_LINE = re.compile(r"^[ \t*#>`]*ACTION[ \t*`]*:", re.IGNORECASE | re.MULTILINE)
_LABEL = re.compile(r"[\s*#>`]*(?:THOUGHT|PLAN|SUMMARY)[ \t*`]*:[ \t*]*", re.IGNORECASE)


@dataclass
class LLMAgent:
    """Chooses by asking a model. `memory` is its own note-book: plan, summary, thoughts by step.

    The note-book is written only when the step has come to a result, so that a step begun again says the same prompts.
    """

    speak: Speaker
    texts: PromptTexts
    scaffold: str
    history: Mapping[str, Any]
    memory: dict[str, Any]

    def __post_init__(self) -> None:
        if self.scaffold not in FORMS:
            raise LabError(f"scaffold is {self.scaffold!r}; allowed: {', '.join(FORMS)}")
        self._history = histories.read(self.history)

    def choose(self, situation: Situation) -> Action:
        """The model's action. WireError where none can be read; Refusal or TooLong where the model would not answer."""
        noted = {**self.memory, "thoughts": dict(self.memory.get("thoughts", {}))}
        system = self.texts.fill("agent.system.txt", actions=_catalogue(situation))
        try:
            self._summarise(situation, system, noted)
            self._plan(situation, system, noted)
            written = self._say(self._prompt(situation, system, noted, FORMS[self.scaffold], "act"))
            if self.scaffold == "react" and (thought := _thought(written)):
                noted["thoughts"][str(len(situation.history) + 1)] = thought
            action = wire.read_text(written)
        except wire.WireError:
            self.memory.update(noted)
            raise
        self.memory.update(noted)
        return action

    def _plan(self, situation: Situation, system: str, noted: dict[str, Any]) -> None:
        """Before its first action an agent that plans writes the plan that it is shown from then on."""
        if self.scaffold == "plan" and not noted.get("plan"):
            written = self._say(self._prompt(situation, system, noted, "agent.plan.txt", "plan"))
            noted["plan"] = _kept(written, "plan")

    def _summarise(self, situation: Situation, system: str, noted: dict[str, Any]) -> None:
        """Renews the summary when steps have become older than it may leave out: the last summary and those steps."""
        last = noted.get("summary", {"upto": 0, "text": ""})
        upto = self._history.summarised(len(situation.history))
        if upto <= last["upto"]:
            return
        steps = histories.in_full(situation.history[last["upto"] : upto], noted["thoughts"])
        parts = [f"STEPS 1 TO {last['upto']}, SUMMARISED\n{last['text']}"] if last["upto"] else []
        asked = self.texts.fill("agent.summary.txt", goal=situation.goal, history="\n\n".join([*parts, steps]))
        written = self._say(Prompt(system, (Message("user", asked),), "summary", self.texts.sha256))
        noted["summary"] = {"upto": upto, "text": _kept(written, "summary")}

    def _prompt(self, now: Situation, system: str, noted: Mapping[str, Any], form: str, purpose: str) -> Prompt:
        """The situation, what only grows first (providers keep a prefix), and then the form of the answer."""
        summary = noted.get("summary", {}).get("text", "")
        asked = self.texts.fill(
            "agent.user.txt",
            goal=now.goal,
            history=histories.told(self._history, now.history, noted["thoughts"], summary),
            time=f"{telling.clock(now.elapsed)} since the start; {now.steps_left} actions left",
            materials=telling.ages(now.inventory, now.elapsed),
            notes=_notes(now, noted.get("plan", "")),
        )
        text = f"{asked}\n\n{self.texts.files[form].strip()}"
        return Prompt(system, (Message("user", text),), purpose, self.texts.sha256)

    def _say(self, prompt: Prompt) -> str:
        """A whole answer. One that is cut off or empty is asked for again in the same words, then it is a WireError."""
        problem = ""
        for _ in range(TURNS):
            completion = self.speak(prompt)
            if completion.stop is Stop.REFUSAL:
                raise Refusal(completion.refusal)
            if completion.stop is Stop.CONTEXT:
                raise TooLong("the agent's prompt is longer than the model takes")
            written = answer(completion.text)
            if completion.stop is Stop.MAX_TOKENS:
                problem = "was cut off at the longest length allowed"
            elif not written:
                problem = "was empty"
            else:
                return written
        raise wire.WireError(f"The {_SAID.get(prompt.purpose, 'answer')} {problem}, {TURNS} times: write less")


def _catalogue(situation: Situation) -> str:
    """Every action in words; each is put into words once, for it is the longest part of a prompt and never changes."""
    return "\n".join(map(_action, situation.catalogue.types.values()))


def _action(kind: ActionType) -> str:
    known = _told.get(id(kind))
    if known is None or known[0] is not kind:
        if len(_told) > _MOST_TOLD:
            _told.clear()
        known = _told[id(kind)] = (kind, telling.action(kind))  # kept with its text: its id is then nobody else's
    return known[1]


_told: dict[int, tuple[ActionType, str]] = {}
_MOST_TOLD = 1000


def _notes(now: Situation, plan: str) -> str:
    """The plan, and how near the attempt is to its end by rejections."""
    running = 0
    while running < len(now.history) and not now.history[-1 - running].outcome.success:
        running += 1
    notes = [f"YOUR PLAN\n{plan}"] if plan else []
    if running:
        notes.append(f"Rejected in a row: {running}. The attempt ends at {REJECTIONS_ALLOWED}.")
    return "\n\n".join(notes)


def _thought(written: str) -> str:
    """What stands before the action, on one line or many, without its label."""
    found = _ACTION_LINE.search(written)
    return _kept(written[: found.start()] if found else "", "thought")


def _kept(written: str, what: str) -> str:
    """What is remembered of a text: without its label, and no longer than the note-book takes."""
    label = _LABEL.match(written)
    bare, most = written[label.end() if label else 0 :].strip(), _LONGEST[what]
    return bare if len(bare) <= most else f"{bare[:most].rstrip()} ..."
