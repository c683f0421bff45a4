"""The agent as a language model, which acts directly (plain), after a thought (react) or by a plan (plan)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from simulation.lab import action_format, rendering
from simulation.lab.actions import Action, Catalogue
from simulation.lab.bench import REJECTIONS_ALLOWED
from simulation.lab.errors import LabError
from simulation.lab.roles import Situation
from simulation.llm import histories, prompt_data, prompt_sets, reply_schemas
from simulation.llm.conversation import (
    TURNS,
    MalformedCompletion,
    NoUsableAnswer,
    extract_last_object,
    extract_text,
    request_answer,
)
from simulation.llm.prompt_sets import PromptTexts
from simulation.providers import CompletionFunction, Prompt
from simulation.providers.base import ReplySchema

PROMPT_FILES = {"plain": "agent.plain.txt", "react": "agent.react.txt", "plan": "agent.act.txt"}
_MAX_STORED = {"thought": 2_000, "plan": 4_000, "summary": 8_000}  # characters stored in memory
_ANSWER_NAMES = {"plan": "plan", "summary": "summary of the history"}
_ACTION_LINE = re.compile(r"^[ \t*#>`]*ACTION[ \t*`]*:", re.IGNORECASE | re.MULTILINE)
_LABEL = re.compile(r"[\s*#>`]*(?:THOUGHT|PLAN|SUMMARY)[ \t*`]*:[ \t*]*", re.IGNORECASE)


@dataclass
class LLMAgent:
    """Chooses actions by prompting a model. `memory` holds its own notes: plan, summary, thoughts by step.

    Notes are written only when the step has a result, so that a step that runs again sends the same prompts.
    """

    speak: CompletionFunction
    texts: PromptTexts
    scaffold: str
    history: Mapping[str, Any]
    memory: dict[str, Any]

    def __post_init__(self) -> None:
        if self.scaffold not in PROMPT_FILES:
            raise LabError(f"scaffold is {self.scaffold!r}; allowed: {', '.join(PROMPT_FILES)}")
        self._history = histories.parse_history(self.history)

    def choose_action(self, situation: Situation) -> Action:
        """Return the model's action. Raises ActionFormatError if it cannot be parsed; Refusal or TooLong if the model does not answer."""
        notes = {**self.memory, "thoughts": dict(self.memory.get("thoughts", {}))}
        system = _build_system_prompt(self.texts, situation.catalogue)
        try:
            # The summary comes before the plan and the action, because both read it.
            self._update_summary(situation, system, notes)
            if self.scaffold == "plan" and not notes.get("plan"):
                # Requested once; the plan is part of every later prompt.
                reply = self._request_answer(self._build_prompt(situation, system, notes, "agent.plan.txt", "plan"))
                notes["plan"] = _shorten_note(reply, "plan")
            prompt = self._build_prompt(situation, system, notes, PROMPT_FILES[self.scaffold], "act")
            reply = self._request_answer(prompt)
            written = _split_reply(reply)
            if self.scaffold == "react" and (thought := _shorten_note(written.thought, "thought")):
                notes["thoughts"][str(len(situation.history) + 1)] = thought
            # An unparsable reply is a rejected step of the agent, not an error of ours.
            action = action_format.parse_action(written.action)
        except action_format.ActionFormatError:
            # The agent's mistake is a step as well, so the notes that led to it are kept.
            self.memory.update(notes)
            raise
        self.memory.update(notes)
        return action

    def _update_summary(self, situation: Situation, system: str, notes: dict[str, Any]) -> None:
        """Renew the summary from the last one and the steps that have left the window."""
        last = notes.get("summary", {"upto": 0, "text": ""})
        upto = self._history.count_summarised(len(situation.history))
        # Only every k steps: in between, the beginning of the prompt stays the same, so that providers can cache it.
        if upto <= last["upto"]:
            return
        steps = prompt_data.render_steps(situation.history[last["upto"] : upto], notes["thoughts"])
        # The last summary and the new steps, never the full history, which may be longer than the context.
        parts = [f"STEPS 1 TO {last['upto']}, SUMMARISED\n{last['text']}"] if last["upto"] else []
        request = self.texts.fill_in("agent.summary.txt", goal=situation.goal, history="\n\n".join([*parts, steps]))
        reply = self._request_answer(self.texts.build_prompt(system, request, "summary"))
        notes["summary"] = {"upto": upto, "text": _shorten_note(reply, "summary")}

    def _build_prompt(self, now: Situation, system: str, notes: Mapping[str, Any], form: str, purpose: str) -> Prompt:
        """Return the prompt: the situation, then the required form of the answer."""
        summary = notes.get("summary", {}).get("text", "")
        # The agent learns how close the limit is, because the episode ends without a warning otherwise.
        rejected = 0
        while rejected < len(now.history) and not now.history[-1 - rejected].outcome.success:
            rejected += 1
        shown = [f"YOUR PLAN\n{notes['plan']}"] if notes.get("plan") else []
        if rejected:
            shown.append(f"Rejected in a row: {rejected}. The attempt ends at {REJECTIONS_ALLOWED}.")
        history = prompt_data.render_history(self._history, now.history, notes["thoughts"], summary)
        parts = self.texts.split_parts(
            "agent.user.txt",
            # The history comes before what changes in every step, so that a cached prefix stays valid.
            goal=now.goal,
            protocol=now.protocol,
            history=history.text,
            time=f"{rendering.format_clock(now.elapsed)} since the start; {now.steps_left} actions left",
            materials=rendering.render_ages(now.inventory, now.elapsed),
            notes="\n\n".join(shown),
        )
        text = "".join(part.text for part in parts)
        name, start = prompt_sets.find_changing_part(parts, stable=("goal", "protocol"))
        return self.texts.build_prompt(
            system,
            f"{text}\n\n{self.texts.files[form].strip()}",
            purpose,
            schema=self._find_schema(now.catalogue, form) if purpose == "act" else None,
            stable_ends=history.shift_ends(start) if name == "history" else (),
        )

    def _find_schema(self, catalogue: Catalogue, form: str) -> ReplySchema | None:
        """Return the schema of an action, or None if the prompt set does not say how a reply of that form looks."""
        note = self.texts.files.get("agent.schema.txt")
        schema = reply_schemas.build_action_schema(catalogue, has_thought=form == PROMPT_FILES["react"])
        return ReplySchema("action", schema, note.strip()) if note else None

    def _request_answer(self, prompt: Prompt) -> str:
        """Return a complete answer. A truncated or empty one is requested again with the same prompt, then raises ActionFormatError."""
        try:
            # Anything complete is returned: whether it is an action is decided when it is parsed.
            return request_answer(self.speak, prompt, str, "no_action", extract=extract_text)
        except NoUsableAnswer as error:
            name = _ANSWER_NAMES.get(prompt.purpose, "answer")
            problem = error.problems[0].removeprefix("the reply ")
            raise action_format.ActionFormatError(f"The {name} {problem}, {TURNS} times: write less") from None


class _WrittenAction(NamedTuple):
    """A reply of the agent: its thought, and the action as text or as an object."""

    thought: str
    action: str | dict[str, Any]


def _split_reply(reply: str) -> _WrittenAction:
    """Return thought and action of a reply, written as labelled lines or as an object of the action's schema."""
    data = _parse_object(reply)
    if data is None:
        match = _ACTION_LINE.search(reply)
        return _WrittenAction(reply[: match.start()] if match else "", reply)
    parameters = data.get("parameters") or []
    # An object in free form has the values by name.
    if isinstance(parameters, list):
        parameters = _pair_values(parameters)
    thought = data.get("thought")
    action = {"name": data.get("action"), "materials": data.get("materials") or [], "parameters": parameters}
    return _WrittenAction(thought if isinstance(thought, str) else "", action)


def _parse_object(reply: str) -> dict[str, Any] | None:
    """Return the reply if it is one JSON object with an action, else None."""
    if not reply.startswith("{") or not reply.endswith("}"):
        return None
    try:
        data = extract_last_object(reply, expects="action")
    except MalformedCompletion:
        return None
    return data if "action" in data else None


def _pair_values(parameters: list[Any]) -> dict[str, Any]:
    """Return the values of parameters by name. Raises ActionFormatError for a parameter without a name, or a repeated one."""
    values: dict[str, Any] = {}
    for parameter in parameters:
        name = parameter.get("name") if isinstance(parameter, Mapping) else None
        if not isinstance(name, str) or name in values:
            raise action_format.ActionFormatError(
                "parameters must be a list of objects with name and value, each name once"
            )
        values[name] = parameter.get("value", "")
    return values


@lru_cache(maxsize=16)
def _build_system_prompt(texts: PromptTexts, catalogue: Catalogue) -> str:
    """Return the system prompt, the same object for all episodes: what is derived from it is cached too."""
    return texts.fill_in("agent.system.txt", actions="\n".join(map(rendering.render_action, catalogue.types.values())))


def _shorten_note(written: str, what: str) -> str:
    """Return the text without its label, shortened to what memory stores."""
    label = _LABEL.match(written)
    text, limit = written[label.end() if label else 0 :].strip(), _MAX_STORED[what]
    return text if len(text) <= limit else f"{text[:limit].rstrip()} ..."
