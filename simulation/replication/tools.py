"""The tools of an agent: their declarations, the checks of a call, and what a call does to a workspace or runs in a sandbox."""

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from simulation.replication.file_tools import FILE_TOOLS, MAX_LINES, MAX_MATCHES
from simulation.replication.observations import MAX_OBSERVATION, cut_observation, show_control_characters
from simulation.replication.sandbox.base import WORKSPACE, SandboxResult
from simulation.replication.trees import MAX_FILE_BYTES, Files
from simulation.replication.values import ToolCall
from simulation.replication.workspace_edits import (
    ToolRefused,
    ToolResult,
    keep_folder,
    read_text,
    resolve_path,
    store_file,
)
from wetbench_site.text import is_storable, join_words

ToolKind = Literal["file", "sandbox", "helper", "ending"]
SUBMIT, QUIT = "submit", "quit"
LAST_TURN_TOOLS = (SUBMIT, QUIT)
_MAX_SHORT, _MAX_COMMAND, _MAX_ANSWER = 2_000, 20_000, 64 * 2**10  # characters
_LINE_NUMBER = re.compile(r"[1-9][0-9]{0,6}")
_SCRIPTS = {".py": "python3", ".sh": "bash"}


class Argument(NamedTuple):
    """An argument of a tool. A block has several lines; `lowest` is the minimum number of characters."""

    name: str
    description: str
    required: bool = True
    is_block: bool = False
    lowest: int = 1
    longest: int = _MAX_SHORT


class Tool(NamedTuple):
    """A tool of an agent. `kind` is what it needs: nothing but the files, a sandbox, the helper, or the end of the episode."""

    name: str
    description: str
    kind: ToolKind
    arguments: tuple[Argument, ...]


_PATH = Argument("path", "file, from the current folder")
_FOLDER = Argument("folder", "folder, from the current one; the current folder if left out", required=False, lowest=0)
_ALL_TOOLS = (
    Tool("list_files", "List the files of a folder and all folders in it.", "file", (_FOLDER,)),
    Tool(
        "read_file",
        f"Show a file with line numbers, at most {MAX_LINES} lines at a time.",
        "file",
        (
            _PATH,
            Argument("first", "first line, from 1", required=False, lowest=0),
            Argument("last", "last line", required=False, lowest=0),
        ),
    ),
    Tool(
        "search",
        f"Show the lines that contain a text exactly as written, at most {MAX_MATCHES}.",
        "file",
        (Argument("text", "text on one line"), _FOLDER),
    ),
    Tool(
        "write_file",
        "Create a file or replace its whole text.",
        "file",
        (_PATH, Argument("text", "whole text of the file", is_block=True, lowest=0, longest=MAX_FILE_BYTES)),
    ),
    Tool(
        "replace",
        "Replace a text that occurs exactly once in a file.",
        "file",
        (
            _PATH,
            Argument("old", "text as the file has it, spaces included", is_block=True, longest=MAX_FILE_BYTES),
            Argument("new", "text in its place", is_block=True, lowest=0, longest=MAX_FILE_BYTES),
        ),
    ),
    Tool(
        "move",
        "Move a file or a folder. Nothing is overwritten.",
        "file",
        (Argument("from", "path that exists"), Argument("to", "path that does not exist")),
    ),
    Tool(
        "change_folder",
        "Make a folder the current one.",
        "file",
        (Argument("folder", f"folder, from the current one; {WORKSPACE} is the first one"),),
    ),
    Tool(
        "edit_file",
        "Let the helper, a second model that sees only this file, rewrite it.",
        "helper",
        (_PATH, Argument("instruction", "what to change", longest=_MAX_COMMAND)),
    ),
    Tool(
        "understand_file",
        "Ask the helper, a second model that sees only this file, a question about it.",
        "helper",
        (_PATH, Argument("question", "what to explain", longest=_MAX_COMMAND)),
    ),
    Tool(
        "run_command",
        "Run a command of bash in the current folder.",
        "sandbox",
        (Argument("command", "one or several lines", longest=_MAX_COMMAND),),
    ),
    Tool(
        "run_script",
        "Run a script, .py or .sh, in the current folder.",
        "sandbox",
        (
            _PATH,
            Argument("arguments", "as in a shell, such as: e1 e2", required=False, lowest=0, longest=_MAX_COMMAND),
        ),
    ),
    Tool(
        SUBMIT,
        "Report the results of the experiments and end.",
        "ending",
        (Argument("answer", 'JSON, such as {"e1": {"slope": 1.0}}', is_block=True, longest=_MAX_ANSWER),),
    ),
    Tool(QUIT, "Give up and end.", "ending", (Argument("reason", "why", longest=_MAX_COMMAND),)),
)
TOOLS: Mapping[str, Tool] = {tool.name: tool for tool in _ALL_TOOLS}


def describe_tools(names: Iterable[str] = tuple(TOOLS)) -> str:
    """Return the tools with their arguments as text for a prompt, in the order of TOOLS."""
    lines = []
    for name in sorted(names, key=list(TOOLS).index):
        lines.append(f"{name}: {TOOLS[name].description}")
        for argument in TOOLS[name].arguments:
            form = "block" if argument.is_block else "line"
            lines.append(
                f"    {argument.name} ({form}{'' if argument.required else ', optional'}): {argument.description}"
            )
    return "\n".join(lines)


def list_usable_tools(names: Iterable[str], has_helper: bool) -> tuple[str, ...]:
    """Return those of an agent's tools that it can use: without a helper, the tools that need one are left out."""
    return tuple(name for name in names if has_helper or TOOLS[name].kind != "helper")


def find_call_problems(call: ToolCall) -> list[str]:
    """Return every fault of a call that does not depend on the workspace, each with what is allowed."""
    tool = TOOLS.get(call.tool)
    if tool is None:
        return [f"there is no tool {call.tool[:60]!r}; the tools are {join_words(TOOLS)}"]
    declared = {argument.name: argument for argument in tool.arguments}
    problems = [
        f"{tool.name} has no argument {name[:60]!r}; it has {join_words(declared)}"
        for name in call.arguments
        if name not in declared
    ]
    for name, argument in declared.items():
        if name in call.arguments:
            problems += _find_value_problems(argument, call.arguments[name])
        elif argument.required:
            form = f"a block between <<<{name} and >>>{name}" if argument.is_block else f"a line `{name}: ...`"
            problems.append(f"{tool.name} needs {name}: {form}")
    return problems or _find_tool_problems(call)


def apply_file_tool(call: ToolCall, files: Files, folder: str) -> ToolResult:
    """Return workspace, current folder and observation after a tool of kind "file".

    Whatever the arguments, only paths and sizes that a workspace allows come back; a refusal changes nothing.
    """
    try:
        _check_call(call, "file")
        return FILE_TOOLS[call.tool](call.arguments, files, folder)
    except ToolRefused as refusal:
        return refuse_tool(str(refusal), files, folder)


def refuse_tool(reason: str, files: Files, folder: str) -> ToolResult:
    """Return the result of a tool that did nothing, with the reason as its observation."""
    return ToolResult(files, folder, cut_observation(show_control_characters(f"refused: {reason}")), refused=True)


def build_command(call: ToolCall, folder: str) -> tuple[str, ...]:
    """Return the command of run_command or run_script as a sandbox runs it. Raises ToolRefused for a wrong call."""
    _check_call(call, "sandbox")
    if call.tool == "run_command":
        command: tuple[str, ...] = ("bash", "-c", call.arguments["command"])
    else:
        path = resolve_path(call.arguments["path"], folder)
        interpreter = next((program for suffix, program in _SCRIPTS.items() if path.endswith(suffix)), "")
        if not interpreter:
            raise ToolRefused(f"{path or 'the workspace'} is not a script; scripts end in {join_words(_SCRIPTS)}")
        command = (interpreter, f"{WORKSPACE}/{path}", *shlex.split(call.arguments.get("arguments", "")))
    # The folder is an argument and not part of the text, so its name cannot be read as a command.
    return ("bash", "-c", 'cd -- "$0" && exec "$@"', f"{WORKSPACE}/{folder}", *command) if folder else command


def format_run(result: SandboxResult) -> str:
    """Return the observation of a command that ran in a sandbox: how it ended, its output, and files that did not come back."""
    lines = [
        _STOPPED.get(result.killed, f"stopped: {result.killed},") if result.killed else f"exit status {result.exit}"
    ]
    lines[0] += f" after {result.seconds:.1f} s"
    if result.files is None:
        lines.append("no files came back: the workspace is as it was before")
    if result.left_out:
        more = [f"and {len(result.left_out) - 10} more"] if len(result.left_out) > 10 else []
        lines += ["files that were left out:", *(f"    {reason}" for reason in result.left_out[:10]), *more]
    notes = cut_observation(show_control_characters("\n".join(lines)), MAX_OBSERVATION // 3)
    output = show_control_characters(result.output)
    size = f"output ({result.output_bytes:,} bytes):" if output else "no output"
    return f"{notes}\n{size}\n{cut_observation(output, MAX_OBSERVATION - len(notes) - 60)}".rstrip()


_STOPPED = {
    "wall": "stopped: it took longer than its time limit,",
    "memory": "stopped: it used more memory than its limit,",
    "disk": "stopped: it wrote more than the disk holds,",
    "inodes": "stopped: it made too many files,",
    "output": "stopped: it wrote too much output,",
    "supervisor": "stopped: the process that supervises the command ended,",
}


def finish_run(result: SandboxResult, files: Files, folder: str) -> ToolResult:
    """Return workspace, current folder and observation after a command. Without files from the sandbox, nothing changes."""
    changed = files if result.files is None else result.files
    return ToolResult(changed, keep_folder(changed, folder), format_run(result))


def read_helper_file(call: ToolCall, files: Files, folder: str) -> tuple[str, str]:
    """Return path and text of the file that edit_file or understand_file is about. Raises ToolRefused."""
    _check_call(call, "helper")
    path = resolve_path(call.arguments["path"], folder)
    return path, read_text(files, path)


def finish_helper(call: ToolCall, reply: str, files: Files, folder: str) -> ToolResult:
    """Return workspace, current folder and observation after the helper's reply: a file's whole new text, or an answer."""
    try:
        path, text = read_helper_file(call, files, folder)
        if not is_storable(reply):
            raise ToolRefused("the helper's reply has characters that are not text")
        if call.tool == "understand_file":
            return ToolResult(files, folder, cut_observation(show_control_characters(reply)))
        reply += "\n" if reply and not reply.endswith("\n") else ""
        changed = store_file(files, path, reply.encode())
    except ToolRefused as refusal:
        return refuse_tool(str(refusal), files, folder)
    before, after = text.count("\n"), reply.count("\n")
    observation = (
        f"the helper rewrote {path}: {before} lines before, {after} after"
        if text != reply
        else f"the helper left {path} as it was"
    )
    return ToolResult(changed, folder, observation)


def _check_call(call: ToolCall, kind: ToolKind) -> None:
    """Raise ToolRefused with every fault of the call, or if the tool is of another kind."""
    problems = find_call_problems(call)
    if not problems and TOOLS[call.tool].kind != kind:
        problems = [f"{call.tool} is not a tool of kind {kind!r}"]
    if problems:
        raise ToolRefused("; ".join(problems))


def _find_value_problems(argument: Argument, value: object) -> list[str]:
    """Return what is wrong with one argument by its declaration alone."""
    name = argument.name
    if not isinstance(value, str) or not is_storable(value):
        return [f"{name} is not text, or has characters that are not"]
    if not argument.lowest <= len(value) <= argument.longest:
        return [f"{name} has {len(value):,} characters; allowed: {argument.lowest} to {argument.longest:,}"]
    return []


def _find_tool_problems(call: ToolCall) -> list[str]:
    """Return what is wrong with arguments that a single declaration cannot state."""
    arguments = call.arguments
    problems = []
    if call.tool == "read_file":
        numbers = {name: arguments[name] for name in ("first", "last") if arguments.get(name)}
        problems = [
            f"{name} is {value[:20]!r}; allowed: a line number from 1"
            for name, value in numbers.items()
            if not _LINE_NUMBER.fullmatch(value)
        ]
        if not problems and len(numbers) == 2 and int(numbers["last"]) < int(numbers["first"]):
            problems = [f"last is {numbers['last']}, before first, {numbers['first']}"]
    elif call.tool == "search" and "\n" in arguments["text"]:
        problems = ["text has several lines; allowed: one line"]
    elif call.tool == "run_script":
        problems = _find_shell_problems(arguments.get("arguments", ""))
    elif call.tool == SUBMIT:
        problems = _find_answer_problems(arguments["answer"])
    return problems


def _find_shell_problems(arguments: str) -> list[str]:
    try:
        shlex.split(arguments)
    except ValueError as error:
        return [f"arguments cannot be read as in a shell: {error}"]
    return []


def _find_answer_problems(answer: str) -> list[str]:
    """Return a fault if the answer is not a JSON object. Its values are checked when it is graded."""
    try:
        is_object = isinstance(json.loads(answer), dict)
    except (ValueError, RecursionError) as error:
        return [f'answer is not JSON ({str(error)[:100]}); allowed: an object such as {{"e1": {{"slope": 1.0}}}}']
    return [] if is_object else ['answer is not a JSON object; allowed: an object such as {"e1": {"slope": 1.0}}']
