"""The agent that edits code as a language model: directly, after a thought, by a plan, or by a plan with its status."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from simulation.lab.errors import LabError
from simulation.llm import histories, prompt_sets
from simulation.llm.coding.code_steps import render_code_history, render_steps
from simulation.llm.coding.notes import MAX_HISTORY_BYTES, REPLY_FORMS, keep_note, shorten_text
from simulation.llm.conversation import BYTES_PER_TOKEN, TURNS, NoUsableAnswer, extract_text, request_answer
from simulation.llm.prompt_sets import PromptTexts
from simulation.providers import CompletionFunction, Prompt
from simulation.replication.episode_rules import MOST_UNREADABLE
from simulation.replication.tools import TOOLS, describe_tools
from simulation.replication.values import CodeSituation, CodeStepRecord, LimitsLeft, ToolCall, ToolFormatError
from simulation.replication.wire import parse_reply

_ANSWER_NAMES = {"plan": "plan", "summary": "summary of the history"}
_LEAST_HISTORY_BYTES = 20_000  # so that an agent of a small context sees its last steps at least
_REST_BYTES = 30_000  # of a prompt: the task, the plan, the form of a reply


@dataclass
class LLMCodingAgent:
    """Chooses one tool at a time by prompting a model. `memory` holds its own notes: plan and summary.

    `tools` are the tools that its prompts describe. `code` is the section with parts of the initial code base, or "".
    Notes are written only when the step has a result, so that a step that runs again sends the same prompts.
    """

    speak: CompletionFunction
    texts: PromptTexts
    scaffold: str
    history: Mapping[str, Any]
    memory: dict[str, Any]
    tools: Sequence[str] = tuple(TOOLS)
    code: str = ""
    context_limit: int | None = None  # tokens of the model
    max_tokens: int = 0  # of a reply

    def __post_init__(self) -> None:
        if self.scaffold not in REPLY_FORMS:
            raise LabError(f"scaffold is {self.scaffold!r}; allowed: {', '.join(REPLY_FORMS)}")
        self._history = histories.parse_history(self.history)

    def choose_tool(self, situation: CodeSituation) -> ToolCall:
        """Return the model's tool call, its note shortened to what the history shows.

        Raises ToolFormatError if the reply cannot be read; Refusal or TooLong if the model does not answer.
        """
        notes = dict(self.memory)
        system = _build_system_prompt(self.texts, tuple(self.tools))
        try:
            # The summary comes before the plan and the tool, because both read it.
            self._update_summary(situation, system, notes)
            if self.scaffold == "plan" and not notes.get("plan") and not situation.last_turn:
                # Requested once; the plan is part of every later prompt.
                reply = self._request_answer(self._build_prompt(situation, system, notes, "code.plan.txt", "plan"))
                notes["plan"] = shorten_text(reply, "plan")
            form = "code.last.txt" if situation.last_turn else REPLY_FORMS[self.scaffold]
            # An unreadable reply is a step of the agent, not an error of ours: there is no repair turn.
            call = parse_reply(self._request_answer(self._build_prompt(situation, system, notes, form, "act")))
            call = replace(call, note=keep_note(self.scaffold, call.note, notes))
        except ToolFormatError:
            # The agent's mistake is a step as well, so the notes that led to it are kept.
            self.memory.update(notes)
            raise
        self.memory.update(notes)
        return call

    def _update_summary(self, situation: CodeSituation, system: str, notes: dict[str, Any]) -> None:
        """Renew the summary from the last one and the steps that have left the window."""
        last = notes.get("summary", {"upto": 0, "text": ""})
        upto = self._history.count_summarised(len(situation.history))
        # Only every k steps: in between, the beginning of the prompt stays the same, so that providers can cache it.
        if upto <= last["upto"]:
            return
        steps = render_steps(situation.history[last["upto"] : upto], self._count_history_bytes(system))
        # The last summary and the new steps, never the full history, which may be longer than the context.
        parts = [f"STEPS 1 TO {last['upto']}, SUMMARISED\n{last['text']}"] if last["upto"] else []
        request = self.texts.fill_in("code.summary.txt", brief=situation.brief, history="\n\n".join([*parts, *steps]))
        reply = self._request_answer(self.texts.build_prompt(system, request, "summary"))
        notes["summary"] = {"upto": upto, "text": shorten_text(reply, "summary")}

    def _build_prompt(
        self, now: CodeSituation, system: str, notes: Mapping[str, Any], form: str, purpose: str
    ) -> Prompt:
        """Return the prompt: the situation, then the required form of the answer."""
        summary = notes.get("summary", {}).get("text", "")
        history = render_code_history(self._history, now.history, summary, self._count_history_bytes(system))
        parts = self.texts.split_parts(
            "code.user.txt",
            # The task, the code and the history come before what changes in every step, so that a cached prefix stays valid.
            brief=now.brief.strip(),
            code=f"\n{self.code}\n" if self.code else "",
            history=history.text,
            left=_describe_left(now.left, now.folder),
            notes="\n\n".join(_list_notes(now.history, notes)),
        )
        text = "".join(part.text for part in parts)
        name, start = prompt_sets.find_changing_part(parts, stable=("brief", "code"))
        return self.texts.build_prompt(
            system,
            f"{text}\n\n{self.texts.files[form].strip()}",
            purpose,
            # The task and the code are the same in all steps, whatever the history shows.
            stable_ends=(start, *history.shift_ends(start)) if name == "history" else (),
        )

    def _count_history_bytes(self, system: str) -> int:
        """Return how many bytes of steps in full fit into a prompt with its other parts."""
        if self.context_limit is None:
            return MAX_HISTORY_BYTES
        room = (self.context_limit - self.max_tokens) * BYTES_PER_TOKEN
        room -= len(system.encode()) + len(self.code.encode()) + _REST_BYTES
        return min(MAX_HISTORY_BYTES, max(room, _LEAST_HISTORY_BYTES))

    def _request_answer(self, prompt: Prompt) -> str:
        """Return a complete answer. A truncated or empty one is requested again with the same prompt, then raises ToolFormatError."""
        try:
            # Anything complete is returned: whether it is a tool call is decided when it is parsed.
            return request_answer(self.speak, prompt, str, "no_tool", extract=extract_text)
        except NoUsableAnswer as error:
            name = _ANSWER_NAMES.get(prompt.purpose, "answer")
            problem = error.problems[0].removeprefix("the reply ")
            raise ToolFormatError([f"the {name} {problem}, {TURNS} times: write less"]) from None


@lru_cache(maxsize=16)
def _build_system_prompt(texts: PromptTexts, tools: tuple[str, ...]) -> str:
    """Return the system prompt, the same object for all episodes: what is derived from it is cached too."""
    return texts.fill_in("code.system.txt", tools=describe_tools(tools))


def _describe_left(left: LimitsLeft, folder: str) -> str:
    money = [] if left.cost is None else [f"{left.cost:.2f} US dollars for calls of language models"]
    limits = "; ".join([f"{left.steps} steps", f"{left.seconds:,.0f} seconds of sandboxes", *money])
    return f"{limits}\nCurrent folder: {folder or 'the workspace'}"


def _list_notes(history: Sequence[CodeStepRecord], notes: Mapping[str, Any]) -> list[str]:
    """Return the plan, and how close the limit of unreadable replies is, because the attempt ends without a warning otherwise."""
    shown = [f"YOUR PLAN\n{notes['plan']}"] if notes.get("plan") else []
    unreadable = 0
    while unreadable < len(history) and history[-1 - unreadable].call is None:
        unreadable += 1
    if unreadable:
        shown.append(f"Unreadable replies in a row: {unreadable}. The attempt ends at {MOST_UNREADABLE}.")
    return shown
