"""The fixed pipeline: a language model that chooses no tools, in five stages and without a second try.

1. The nearest paragraphs of the paper for each hidden function. 2. One call: files worth reading. 3. The nearest functions of them.
4. One call that reasons, then one call for each hidden function. 5. One run of all experiments; its RESULT lines are submitted.
"""

import json
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from simulation.llm.coding.context import NOT_AVAILABLE, CodeContext, render_passages, render_pieces
from simulation.llm.coding.helper import extract_block
from simulation.llm.coding.notes import shorten_text
from simulation.llm.coding.retrieval import CodePiece, outline_code
from simulation.llm.conversation import NoUsableAnswer, request_answer
from simulation.llm.prompt_data import delimit_text
from simulation.llm.prompt_sets import PromptTexts
from simulation.providers import CompletionFunction, Prompt
from simulation.replication.tasks.workspaces import DRIVER, read_printed_results
from simulation.replication.tools import QUIT, SUBMIT
from simulation.replication.values import CodeSituation, CodeStepRecord, ToolCall, ToolFormatError

MOST_FILES = 3


@dataclass
class FixedCodingAgent:
    """Writes the body of one hidden function a step, then runs all experiments, then submits what they printed.

    `memory` holds the results of the first step: the files and the notes. The position in the pipeline is the number of steps, so an
    unreadable reply leaves its function hidden and the next step goes on.
    """

    speak: CompletionFunction
    texts: PromptTexts
    memory: dict[str, Any]
    context: CodeContext

    def choose_tool(self, situation: CodeSituation) -> ToolCall:
        """Return the tool of this stage.

        Raises ToolFormatError if a function could not be read from a reply; Refusal or TooLong if the model does not answer.
        """
        hidden, done = self.context.hidden_pieces, len(situation.history)
        if done < len(hidden) and not situation.last_turn:
            notes = self._prepare(dict(self.memory))
            try:
                call = self._fill_in(hidden[done], notes)
            except ToolFormatError:
                # An unreadable reply is a step as well, so the notes that led to it are kept.
                self.memory.update(notes)
                raise
            self.memory.update(notes)
            return call
        if done == len(hidden) and not situation.last_turn:
            return ToolCall("run_script", {"path": DRIVER, "arguments": "--all"})
        if any(step.call and step.call.tool == SUBMIT for step in situation.history):
            return ToolCall(QUIT, {"reason": "the results were refused, and there is no second try"})
        return ToolCall(SUBMIT, {"answer": collect_results(situation.history)})

    def _prepare(self, notes: dict[str, Any]) -> dict[str, Any]:
        """Make the calls before the first function: which files are worth reading, and the reasoning."""
        if "reasoning" in notes:
            return notes
        if self.context.code == "lexical":
            notes["files"] = self._choose_files()
        hidden = self.context.hidden_pieces
        request = self.texts.fill_in(
            "code.reason.txt",
            functions=render_pieces(hidden),
            passages=render_passages(self.context.find_passages(hidden)),
            code=self._render_code(hidden, notes),
        )
        try:
            notes["reasoning"] = shorten_text(self._request(request, "reason"), "reasoning")
        except NoUsableAnswer as error:
            # The stages after it do not depend on it, and there is no second try.
            notes["reasoning"] = f"There are no notes: {error}"
        return notes

    def _choose_files(self) -> list[str]:
        """Return the files that the model names, at most three; those of the hidden functions if it names none."""
        hidden, code = self.context.hidden_pieces, self.context.masked_code
        request = self.texts.fill_in(
            "code.files.txt",
            functions=render_pieces(hidden),
            files=delimit_text("FILES", outline_code(code)),
        )
        try:
            lines = self._request(request, "files").split("\n")
        except NoUsableAnswer:
            lines = []
        named = dict.fromkeys(line.strip(" \t-*`") for line in lines)
        return [path for path in named if path in code][:MOST_FILES] or sorted({piece.path for piece in hidden})

    def _render_code(self, functions: Sequence[CodePiece], notes: dict[str, Any]) -> str:
        """Return the part of the code base that the condition `code` allows, between marks."""
        if self.context.code == "none":
            return NOT_AVAILABLE
        if self.context.code != "lexical":
            return delimit_text("CODE", self.context.render_all_code())
        pieces = [piece for piece in self.context.pieces if piece.path in notes["files"]]
        near = self.context.find_near_pieces(functions, pieces)
        return delimit_text("CODE", render_pieces(near)) if near else NOT_AVAILABLE

    def _fill_in(self, function: CodePiece, notes: dict[str, Any]) -> ToolCall:
        """Return the edit that puts the model's function in place of the hidden one. Raises ToolFormatError."""
        request = self.texts.fill_in(
            "code.infill.txt",
            reasoning=delimit_text("NOTES", notes["reasoning"]),
            passages=render_passages(self.context.find_passages([function])),
            code=self._render_code([function], notes),
            function=render_pieces([function]),
        )
        try:
            written = self._request(request, "infill", "function")
        except NoUsableAnswer as error:
            raise ToolFormatError([f"{function.name}: {problem}" for problem in error.problems]) from None
        return ToolCall(
            "replace", {"path": function.path, "old": function.text, "new": fit_function(written, function)}
        )

    def _request(self, request: str, purpose: str, block: str = "") -> str:
        """Return the reply, or the block of that name in it. Raises NoUsableAnswer."""
        prompt: Prompt = self.texts.build_prompt(self.texts.files["code.fixed.txt"].strip(), request, purpose)
        return request_answer(
            self.speak, prompt, lambda reply: extract_block(reply, block) if block else reply, f"no_{purpose}"
        )


def fit_function(written: str, function: CodePiece) -> str:
    """Return the model's text with the indentation of the hidden function. Raises ToolFormatError if it does not define it."""
    text = textwrap.dedent(written).strip("\n")
    name = function.name.rpartition(".")[2]
    # The text is not parsed here: a sandbox checks whether it is Python.
    if not re.search(rf"^(async )?def {re.escape(name)}\(", text, re.MULTILINE):
        raise ToolFormatError([f"{function.name}: the reply has no line that begins with `def {name}(`"])
    indentation = function.text[: len(function.text) - len(function.text.lstrip())]
    return textwrap.indent(text, indentation)


def collect_results(history: Sequence[CodeStepRecord]) -> str:
    """Return the RESULT lines of the last run as one JSON object by experiment. A line that is not JSON is left out."""
    runs = [step for step in history if step.call and step.call.tool in ("run_script", "run_command")]
    return json.dumps(read_printed_results(runs[-1].observation) if runs else {})
