"""The form in which an agent writes a tool call, and the strict parser of it.

    THOUGHT: the baseline is a line through early cycles.
    TOOL: replace
    path: code/qpcr/curves.py
    <<<old
        raise NotImplementedError("hidden")
    >>>old
    <<<new
        return signal - np.polyval(line, cycles)
    >>>new

Text before TOOL is the note of the call. An argument is a line `name: value` or a block. A block ends at the last line `>>>name`
before the next block or tool, so its text may contain such a line; if that is not enough, both lines may have more brackets.
"""

import re

from simulation.replication.tools import TOOLS, find_call_problems
from simulation.replication.trees import MAX_FILE_BYTES
from simulation.replication.values import ToolCall, ToolFormatError
from wetbench_site.text import is_storable, join_words

MAX_REPLY = 2 * MAX_FILE_BYTES  # characters that are read of one reply
_MOST_ARGUMENTS = 20  # the end of each block is searched in the whole reply, so many blocks would take long
_TOOL_LINE = re.compile(r"[ \t*#`]*TOOL[*`]*:(.*)")
_NAME = re.compile(r"[A-Za-z][A-Za-z_]{0,39}")
_KEY_LINE = re.compile(r"[ \t]*([A-Za-z][A-Za-z_]{0,39})[ \t]*:(.*)")
_BLOCK_LINE = re.compile(r"(<{3,})([A-Za-z][A-Za-z_]{0,39})")
_EMPHASIS = " \t\r*`"


def parse_reply(text: str) -> ToolCall:
    """Return the tool call in a reply. Raises ToolFormatError with every fault.

    A call whose form can be read is returned even if the tool or an argument is wrong: `find_call_problems` finds that, so
    the step is refused rather than unreadable. If there are two tools, the first is used, and the call's remark names the other.
    """
    if not isinstance(text, str) or len(text) > MAX_REPLY or not is_storable(text):
        raise ToolFormatError([f"a reply is text of at most {MAX_REPLY:,} characters"])
    lines = text.split("\n")
    starts = (number for number, line in enumerate(lines) if _TOOL_LINE.match(line))
    start = next(starts, None)
    if start is None:
        raise ToolFormatError(["there is no line `TOOL: name`"])
    if lines[start].endswith("\r"):
        # The reply has the line ends of Windows. Files must not get them, because `old` would then never match.
        lines = [line.removesuffix("\r") for line in lines]
    name = _read_tool_name(lines[start])
    problems = (
        [] if _NAME.fullmatch(name) else [f"TOOL: {name[:60]!r} is not a name; the tools are {join_words(TOOLS)}"]
    )
    reader = _ArgumentReader(lines, start + 1, name)
    reader.read_arguments()
    call = ToolCall(name, reader.arguments, "\n".join(lines[:start]).strip(), reader.remark)
    problems += reader.problems
    if problems:
        # The agent can correct everything at once.
        raise ToolFormatError([*problems, *(find_call_problems(call) if name in TOOLS else [])])
    return call


def format_call(call: ToolCall) -> str:
    """Return a call in the form that `parse_reply` reads."""
    tool = TOOLS.get(call.tool)
    blocks = {argument.name for argument in tool.arguments if argument.is_block} if tool else set()
    # A line of the note that looks like a tool is quoted, so that it is not the tool.
    note = [f"> {line}" if _TOOL_LINE.match(line) else line for line in call.note.split("\n")] if call.note else []
    lines, block_lines = [*note, f"TOOL: {call.tool}"], []
    for name, value in call.arguments.items():
        if name in blocks or "\n" in value or value != value.strip():
            block_lines += _format_block(name, value)
        else:
            lines.append(f"{name}: {value}".rstrip())
    return "\n".join([*lines, *block_lines])


def _format_block(name: str, text: str) -> list[str]:
    lines = text.split("\n")
    ends = {line.strip() for line in lines}
    count = next(count for count in range(3, len(lines) + 4) if ">" * count + name not in ends)
    return ["<" * count + name, *lines, ">" * count + name]


def _read_tool_name(line: str) -> str:
    match = _TOOL_LINE.match(line)
    return match[1].strip(_EMPHASIS) if match else ""


class _ArgumentReader:
    """Reads the lines after TOOL once, from first to last."""

    def __init__(self, lines: list[str], start: int, tool: str) -> None:
        self.lines, self.number = lines, start
        self.names = {argument.name for argument in TOOLS[tool].arguments} if tool in TOOLS else set()
        self.arguments: dict[str, str] = {}
        self.problems: list[str] = []
        self.remark = ""

    def read_arguments(self) -> None:
        """Read lines and blocks until the end of the reply or a second tool."""
        has_gap = in_prose = False
        while self.number < len(self.lines) and len(self.arguments) <= _MOST_ARGUMENTS:
            line = self.lines[self.number]
            if _TOOL_LINE.match(line):
                self.remark = f"only the first tool of a reply is used; {_read_tool_name(line)[:40]!r} was ignored"
                return
            opening = _BLOCK_LINE.fullmatch(line.strip())
            if opening and not (in_prose and opening[2] not in self.names):
                self._read_block(opening)
                has_gap, in_prose = True, False
                continue
            key_line = _KEY_LINE.fullmatch(line.rstrip("\r"))
            if not line.strip() or line.strip().startswith("```"):
                has_gap = True
            elif key_line and not in_prose and (not has_gap or key_line[1] in self.names):
                self._store(key_line[1], key_line[2].strip())
            elif has_gap:
                # Text after an empty line or a block is ignored, but the tool's blocks after it are read.
                in_prose = True
            else:
                self._report(f"{line.strip()[:60]!r} is neither `name: value` nor a block from <<<name to >>>name")
            self.number += 1

    def _read_block(self, opening: re.Match[str]) -> None:
        """Store the block that begins at the current line, and continue after it."""
        name = opening[2]
        end = self._find_end(">" * len(opening[1]) + name)
        if end is None:
            self._report(f"the block {name} has no line {'>' * len(opening[1])}{name} at its end")
            end = len(self.lines)
        self._store(name, "\n".join(self.lines[self.number + 1 : end]))
        self.number = end + 1

    def _find_end(self, marker: str) -> int | None:
        """Return the last line that is the marker before the next block or tool, or None."""
        end = None
        for number in range(self.number + 1, len(self.lines)):
            line = self.lines[number].strip()
            if line == marker:
                end = number
            elif end is not None:
                opening = _BLOCK_LINE.fullmatch(line)
                if (opening and opening[2] in self.names) or _read_tool_name(line) in TOOLS:
                    break
        return end

    def _store(self, name: str, value: str) -> None:
        if name in self.arguments:
            self._report(f"{name} is given twice")
        else:
            self.arguments[name] = value

    def _report(self, problem: str) -> None:
        if len(self.problems) < 20:
            self.problems.append(f"line {self.number + 1}: {problem}")
