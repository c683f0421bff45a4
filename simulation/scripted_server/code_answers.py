"""Answer the prompts of agents that edit code by rules: replies of a list, then one run, then the results that it printed.

No answer comes from a language model. Without a list the rules change no code: they run the experiments and submit what was printed.
"""

import json
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from simulation.scripted_server.questions import Question

_DATA = re.compile(r"<<<([A-Z]+ [0-9a-f]{16})\n(.*?)\n\1>>>", re.DOTALL)
_STEP = re.compile(r"^(?:STEP|Step) (\d{1,4})\b|^STEPS 1 TO (\d{1,4}),", re.MULTILINE)
_RESULT = re.compile(r"^RESULT (e\d{1,2}) (\{.*\})$", re.MULTILINE)
_HEADER = re.compile(r"^[ \t]*(?:async )?def ([A-Za-z_]\w*)\(", re.MULTILINE)
_HIDDEN = re.compile(r"raise NotImplementedError\(.*\)")
_LABELS = ("REFLECTION", "THOUGHT", "PLAN", "STATUS")
_NOTES = {
    "REFLECTION": "The rules reflect on nothing.",
    "THOUGHT": "The next reply of the script.",
    "PLAN": "1. Send the replies of the script. (doing)\n2. Run the experiments and submit what they print. (open)",
    "STATUS": "The script goes on.",
}
RUN = "TOOL: run_script\npath: /workspace/run.py\narguments: --all"


class CodeScript(NamedTuple):
    """What the rules send: complete replies of an agent, one a step, and functions by name for the fixed pipeline."""

    replies: tuple[str, ...] = ()
    functions: Mapping[str, str] = {}

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> "CodeScript":
        """Return the script in a file's JSON, {"replies": [text], "functions": {name: text}}. Raises ValueError."""
        replies, functions = data.get("replies", []), data.get("functions", {})
        if (
            not isinstance(replies, list)
            or not isinstance(functions, dict)
            or not all(isinstance(text, str) for text in (*replies, *functions.values()))
            or not set(data) <= {"replies", "functions"}
        ):
            raise ValueError("a script is an object with replies, a list of texts, and functions, texts by name")
        return cls(tuple(replies), functions)


class CodeRole(StrEnum):
    """What a prompt of the code family asks for."""

    AGENT = "code"
    PLAN = "code plan"
    EDIT = "code edit"
    INFILL = "code infill"
    TEXT = "code text"  # a summary, an answer, notes, names of files


def find_code_role(question: Question) -> CodeRole | None:
    """Return what the form of the answer implies, or None for a prompt of another family. Text between data marks is ignored."""
    asked = _DATA.sub("", question.user_text)
    if "TOOL:" in question.system:
        form = asked[asked.rfind("WHAT IS LEFT") :]
        if "HISTORY TO SUMMARISE" in asked:
            return CodeRole.TEXT
        return CodeRole.PLAN if "no tool yet" in form else CodeRole.AGENT
    if "\n>>>file" in asked:
        return CodeRole.EDIT
    if "\n>>>function" in asked:
        return CodeRole.INFILL
    is_text = any(mark in question.system for mark in ("<<<FILE code", "missing functions of a scientific analysis"))
    return CodeRole.TEXT if is_text else None


def write_code_answer(question: Question, role: CodeRole, script: CodeScript) -> str:
    """Return the text with which the rules answer a prompt of the code family."""
    if role is CodeRole.AGENT:
        return _choose_tool(question, script)
    if role is CodeRole.PLAN:
        return f"PLAN:\n{_NOTES['PLAN']}"
    if role is CodeRole.EDIT:
        text = _read_last_block(question)
        end = "" if text.endswith("\n") else "\n"
        return f"<<<file\n{text}{end}>>>file"
    if role is CodeRole.INFILL:
        return f"<<<function\n{_write_function(question, script)}\n>>>function"
    return "The scripted server answers by rules and has worked out nothing."


def _choose_tool(question: Question, script: CodeScript) -> str:
    asked = question.user_text
    instructions = _DATA.sub("", asked)
    done = max((int(full or summarised) for full, summarised in _STEP.findall(instructions)), default=0)
    form = instructions[instructions.rfind("WHAT IS LEFT") :]
    is_last = "only submit and quit" in form
    notes = "".join(f"{label}: {_NOTES[label]}\n" for label in _LABELS if re.search(rf"^{label}:", form, re.MULTILINE))
    if done < len(script.replies) and not is_last:
        return notes + script.replies[done]
    if done == len(script.replies) and not is_last:
        return notes + RUN
    results = {name: json.loads(values) for name, values in _RESULT.findall(asked)}
    if not results:
        return f"{notes}TOOL: quit\nreason: the experiments have printed no result"
    return f"{notes}TOOL: submit\n<<<answer\n{json.dumps(results)}\n>>>answer"


def _read_last_block(question: Question) -> str:
    blocks = _DATA.findall(question.user_text)
    return blocks[-1][1] if blocks else ""


def _write_function(question: Question, script: CodeScript) -> str:
    """Return the script's text of the function that the prompt shows, or a stub that returns None."""
    # The instruction after the function has an example of the form, so the first function outside the data counts.
    shown = _DATA.sub("", question.user_text).partition("\nAnswer with the complete function")[0]
    header = _HEADER.search(shown)
    if header is None:
        return "def unknown():\n    return None"
    return script.functions.get(header[1], _HIDDEN.sub("return None", shown[header.start() :].strip("\n")))
