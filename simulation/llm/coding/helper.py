"""The helper: a second language model that sees one file, and rewrites it or answers a question about it."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from simulation.llm.conversation import MalformedCompletion, NoUsableAnswer, request_answer
from simulation.llm.prompt_data import delimit_text
from simulation.llm.prompt_sets import PromptTexts
from simulation.providers import CompletionFunction, Prompt
from simulation.replication.workspace_edits import ToolRefused

_OPENING = re.compile(r"^<<<(\w+)[ \t]*$", re.MULTILINE)
_FENCE = re.compile(r"^```[\w+-]*[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class CodeHelper:
    """Answers the tools edit_file and understand_file by prompting a model. It sees no other file and no history."""

    speak: CompletionFunction
    texts: PromptTexts

    def edit(self, path: str, text: str, instruction: str) -> str:
        """Return the whole new text of the file. Raises ToolRefused if the reply has none; Refusal or TooLong if there is no reply."""
        request = self.texts.fill_in(
            "code.edit.txt", path=path, text=delimit_text("FILE", text), instruction=instruction
        )
        prompt = self.texts.build_prompt(self.texts.files["code.helper.txt"].strip(), request, "edit")
        return self._request(prompt, lambda reply: extract_block(reply, "file"))

    def answer(self, path: str, text: str, question: str) -> str:
        """Return the answer to a question about the file. Raises ToolRefused if it is empty; Refusal or TooLong if there is no reply."""
        request = self.texts.fill_in(
            "code.understand.txt", path=path, text=delimit_text("FILE", text), question=question
        )
        prompt = self.texts.build_prompt(self.texts.files["code.helper.txt"].strip(), request, "understand")
        return self._request(prompt, str)

    def _request(self, prompt: Prompt, read: Callable[[str], str]) -> str:
        try:
            return request_answer(self.speak, prompt, read, "no_help")
        except NoUsableAnswer as error:
            # For the agent this is a tool that failed; its episode goes on.
            raise ToolRefused(f"the helper gave no usable answer: {error.problems[0]}") from None


def extract_block(reply: str, name: str) -> str:
    """Return the text between the lines `<<<name` and `>>>name`, else that of a fenced block. Raises MalformedCompletion."""
    opening = next((match for match in _OPENING.finditer(reply) if match[1] == name), None)
    if opening:
        # The last line that is the mark: the text itself may contain one.
        body, mark, _ = reply[opening.end() + 1 :].rpartition(f">>>{name}")
        if mark and (not body or body.endswith("\n")):
            return body
        raise MalformedCompletion(f"the block {name} has no line >>>{name} at its end")
    if fence := _FENCE.search(reply):
        return fence[1]
    raise MalformedCompletion(f"there is no block between a line <<<{name} and a line >>>{name}")
