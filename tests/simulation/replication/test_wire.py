"""The form of a tool call: written and read back, and replies that are wrong or hostile."""

import time
from contextlib import suppress
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulation.replication.tools import TOOLS, find_call_problems
from simulation.replication.values import ToolCall, ToolFormatError
from simulation.replication.wire import format_call, parse_reply

LETTERS = "TOL:<>texna \t\n\r\x0b\x1c\x85\u2028é𝛼"
LINES = st.sampled_from(
    [
        "",
        "x = 1",
        "    return x",
        "TOOL: quit",
        ">>>text",
        "<<<text",
        ">>>old",
        "<<<<new",
        ">>>>new",
        "path: a.py",
        "```",
        "\r",
        "\x0b",
    ]
)
TEXTS = st.one_of(st.lists(LINES, max_size=6).map("\n".join), st.text(LETTERS, max_size=30))


@st.composite
def draw_calls(draw: st.DrawFn) -> ToolCall:
    """Draw a call of any tool with any of its arguments, in any order, and a note that holds no tool."""
    tool = TOOLS[draw(st.sampled_from(sorted(TOOLS)))]
    names = draw(st.permutations([argument.name for argument in tool.arguments]))
    arguments = {name: draw(TEXTS) for name in names[: draw(st.integers(0, len(names)))]}
    note = draw(st.sampled_from(["", "THOUGHT: a line\nthrough early cycles", "path: a.py\n<<<text\nx\n>>>text"]))
    return ToolCall(tool.name, arguments, note)


@given(draw_calls())
def test_wire_form_of_any_call_is_read_back_as_the_same_call(call: ToolCall) -> None:
    assert parse_reply(format_call(call)) == call


PIECES = st.sampled_from(
    ["TOOL: replace", "TOOL: fly", "TOOL:", "**TOOL:** quit", "path: a.py", "what: x", "<<<old", ">>>old", "<<<new", ">>>new",
     "<<<text", "", "prose", "```", "\0", "\ud800", "reason: no", ": x", "<<<"]
)  # fmt: skip


@given(st.one_of(st.lists(PIECES, max_size=12).map("\n".join), st.text(LETTERS + "\0\ud800", max_size=60)))
def test_wire_parser_raises_nothing_but_its_own_error(text: str) -> None:
    with suppress(ToolFormatError):
        assert isinstance(find_call_problems(parse_reply(text)), list)


def test_wire_reply_with_thought_tool_and_blocks_is_read() -> None:
    reply = "THOUGHT: fit a line.\nTOOL: replace\npath: code/a.py\n<<<old\n    raise X\n>>>old\n<<<new\n    a = 1\n\n    b\n>>>new\nDone."
    assert parse_reply(reply) == ToolCall(
        "replace", {"path": "code/a.py", "old": "    raise X", "new": "    a = 1\n\n    b"}, "THOUGHT: fit a line."
    )


def test_wire_block_ends_at_its_last_end_line_before_the_next_block_or_tool() -> None:
    reply = "TOOL: write_file\npath: a\n<<<text\none\n>>>text\ntwo\n>>>text\n\nTOOL: write_file\npath: b\n<<<text\nthree\n>>>text"
    call = parse_reply(reply)
    assert call.arguments == {"path": "a", "text": "one\n>>>text\ntwo"}
    assert call.remark == "only the first tool of a reply is used; 'write_file' was ignored"


def test_wire_text_after_an_empty_line_is_ignored_and_a_block_after_it_is_read() -> None:
    assert parse_reply("TOOL: quit\nreason: no\n\nNote: this is all.\nreason: x").arguments == {"reason": "no"}
    reply = "TOOL: write_file\npath: a\n\nHere is the file:\n<<<text\nx\n>>>text"
    assert parse_reply(reply).arguments == {"path": "a", "text": "x"}


def test_wire_reply_with_line_ends_of_windows_gives_plain_text() -> None:
    reply = "THOUGHT: x\r\nTOOL: write_file\r\npath: a\r\n<<<text\r\none\r\ntwo\r\n>>>text\r\n"
    assert parse_reply(reply) == ToolCall("write_file", {"path": "a", "text": "one\ntwo"}, "THOUGHT: x")


def test_wire_faults_are_listed_all_at_once() -> None:
    with pytest.raises(ToolFormatError) as error:
        parse_reply("TOOL: replace\npath: a\npath: b\nand so on\n<<<old\nx")
    assert error.value.problems == (
        "line 3: path is given twice",
        "line 4: 'and so on' is neither `name: value` nor a block from <<<name to >>>name",
        "line 5: the block old has no line >>>old at its end",
        "replace needs new: a block between <<<new and >>>new",
    )


def test_wire_reply_without_a_tool_is_a_fault() -> None:
    with pytest.raises(ToolFormatError, match="there is no line `TOOL: name`"):
        parse_reply("I would run the tool: run_command")


NAMES = ["".join(letters) for letters in product("abcdefghijklmnopqrstuvwxyzABCDEFGHI_", repeat=3)]
HOSTILE = {
    "many blocks": "TOOL: fly\n" + "\n".join(f"<<<{name}\n>>>{name}" for name in NAMES),
    "many blocks without an end": "TOOL: fly\n" + "\n".join(f"<<<{name}" for name in NAMES),
    "many keys": "TOOL: fly\n" + "\n".join(f"{name}: x" for name in NAMES),
    "spaces": "TOOL: fly\n" + " " * 1_000_000 + ":",
    "emphasis": "*" * 1_000_000 + "\n" + "`" * 900_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_wire_parser_takes_linear_time_on_hostile_replies(name: str) -> None:
    start = time.process_time()
    with suppress(ToolFormatError):
        parse_reply(HOSTILE[name])
    assert time.process_time() - start < 3
