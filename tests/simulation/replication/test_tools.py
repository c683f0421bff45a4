"""Tools on a workspace: what each does, what is refused, and that no argument yields a forbidden path."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulation.replication.observations import MAX_OBSERVATION, cut_observation, show_control_characters
from simulation.replication.sandbox.base import SandboxResult
from simulation.replication.tools import (
    TOOLS,
    apply_file_tool,
    build_command,
    find_call_problems,
    finish_helper,
    finish_run,
    format_run,
)
from simulation.replication.trees import MAX_FILE_BYTES, find_path_problem
from simulation.replication.values import ToolCall
from simulation.replication.workspace_edits import ToolRefused, has_folder

FILES = {
    "code/a.py": b"one\ntwo\ntwo\nthree\n",
    "code/lib/b.py": b"x = 1\n",
    "data.bin": b"\xff\xfe",
    "run.py": b"print(1)\n",
}
RESULT = SandboxResult(0, 1.25, 0.4, 50, "RESULT e1 {}\n", 13, "", {}, (), b"")


def call(tool: str, **arguments: str) -> ToolCall:
    return ToolCall(tool, {name.rstrip("_"): value for name, value in arguments.items()})


def observe(tool: str, folder: str = "", **arguments: str) -> str:
    return apply_file_tool(call(tool, **arguments), FILES, folder).observation


def test_list_files_shows_a_folder_with_sizes() -> None:
    assert observe("list_files", folder="code") == "2 files in code/:\na.py  18 bytes\nlib/b.py  6 bytes"
    assert observe("list_files").startswith("4 files in the workspace:\ncode/a.py")


def test_read_file_shows_numbered_lines_of_a_range() -> None:
    assert (
        observe("read_file", path="code/a.py", first="2", last="3")
        == "code/a.py, lines 2 to 3 of 4:\n   2 | two\n   3 | two"
    )


def test_read_file_shows_at_most_400_lines() -> None:
    files = {"long.txt": b"x\n" * 1000}
    observation = apply_file_tool(call("read_file", path="long.txt", first="10"), files, "").observation
    assert observation.startswith("long.txt, lines 10 to 409 of 1000:") and observation.count("\n") == 400


def test_search_finds_literal_text_with_file_and_line() -> None:
    assert observe("search", text="two") == "'two' is in 2 lines of the workspace:\ncode/a.py:2: two\ncode/a.py:3: two"
    assert observe("search", text="t.o") == "'t.o' is in 0 lines of the workspace."


def test_search_shows_the_match_of_a_long_line() -> None:
    files = {"data.csv": b"x" * 5_000 + b"needle" + b"y" * 5_000}
    observation = apply_file_tool(call("search", text="needle"), files, "").observation
    assert observation.endswith(f"[...] {'x' * 100}needle{'y' * 194} [...]")


def test_write_file_creates_a_file_with_a_line_end_at_its_end() -> None:
    result = apply_file_tool(call("write_file", path="new/c.py", text="y = 2"), FILES, "code")
    assert result.files == {**FILES, "code/new/c.py": b"y = 2\n"} and not result.refused


def test_replace_needs_exactly_one_occurrence() -> None:
    result = apply_file_tool(call("replace", path="code/a.py", old="two\nthree", new="4"), FILES, "")
    assert result.files["code/a.py"] == b"one\ntwo\n4\n"
    assert "does not occur in code/a.py" in observe("replace", path="code/a.py", old="four", new="")
    assert "more than once in code/a.py, at lines 2, 3;" in observe("replace", path="code/a.py", old="two", new="")
    assert (
        "more than once" in apply_file_tool(call("replace", path="f", old="aa", new=""), {"f": b"aaa"}, "").observation
    )


def test_move_renames_files_and_folders_and_overwrites_nothing() -> None:
    result = apply_file_tool(call("move", from_="../code", to="/workspace/src"), FILES, "code")
    assert sorted(result.files) == ["data.bin", "run.py", "src/a.py", "src/lib/b.py"] and result.folder == ""
    assert observe("move", from_="run.py", to="code/a.py").startswith("refused: code/a.py exists already")
    assert observe("move", from_="code", to="code/lib/x").startswith("refused: code cannot be moved")


def test_change_folder_moves_within_the_workspace_only() -> None:
    assert apply_file_tool(call("change_folder", folder="lib"), FILES, "code").folder == "code/lib"
    assert apply_file_tool(call("change_folder", folder="../.."), FILES, "code/lib").folder == ""
    assert "'..' is outside the workspace" in apply_file_tool(call("change_folder", folder=".."), FILES, "").observation


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("../x", "outside the workspace"),
        ("/etc/passwd", "outside the workspace"),
        ("//etc", "outside the workspace"),
        ("a/../../workspace2", "outside the workspace"),
        (".git/config", "hidden folders"),
        ("a\u202eb", "printable"),
        ("a\\b", "backslashes"),
        ("e\u0301", "NFC"),
        ("code", "is a folder"),
        ("run.py/x", "run.py is a file"),
        ("x" * 201, "1 to 200 characters"),
        ("漢" * 86, "at most 255 bytes"),  # no Linux file system holds it, so that no sandbox would start
        ("/workspace", "is a folder"),
    ],
)
def test_write_file_refuses_a_hostile_path(path: str, reason: str) -> None:
    result = apply_file_tool(call("write_file", path=path, text="x"), FILES, "")
    assert result.refused and reason in result.observation and result.files == FILES


def test_write_file_refuses_sizes_that_a_workspace_does_not_hold() -> None:
    large = "é" * (MAX_FILE_BYTES // 2 + 1)
    assert "a file has at most 1,048,576" in observe("write_file", path="x", text=large)
    full = {f"f{number}": b"" for number in range(400)}
    assert "401 files" in apply_file_tool(call("write_file", path="x", text=""), full, "").observation
    heavy = {f"f{number}": b"x" * MAX_FILE_BYTES for number in range(16)}
    assert "16,777,217 bytes" in apply_file_tool(call("write_file", path="x", text="\n"), heavy, "").observation


def test_read_file_of_bytes_that_are_no_text_is_refused() -> None:
    assert observe("read_file", path="data.bin") == "refused: data.bin is not text in UTF-8; it has 2 bytes"


@pytest.mark.parametrize(
    ("tool", "problems"),
    [
        (call("fly"), ["there is no tool 'fly'; the tools are list_files, read_file,"]),
        (
            call("read_file", file="a"),
            ["no argument 'file'; it has path, first and last", "needs path: a line `path: ...`"],
        ),
        (call("read_file", path="a", first="0", last="-1"), ["first is '0'; allowed: a line number", "last is '-1'"]),
        (call("read_file", path="a", first="3", last="2"), ["last is 2, before first, 3"]),
        (call("replace", path="a", old="", new="x"), ["old has 0 characters; allowed: 1 to"]),
        (call("search", text="a\nb"), ["text has several lines"]),
        (
            call("run_script", path="a.py", arguments="'"),
            ["arguments cannot be read as in a shell: No closing quotation"],
        ),
        (call("submit", answer="slope 1"), ["answer is not JSON"]),
        (call("submit", answer="[1]"), ["answer is not a JSON object"]),
        (call("submit", answer="[" * 60_000), ["answer is not JSON"]),
        (call("write_file", path="a", text="\0"), ["text is not text"]),
    ],
)
def test_call_problems_name_what_is_allowed(tool: ToolCall, problems: list[str]) -> None:
    found = find_call_problems(tool)
    assert len(found) == len(problems) and all(part in text for part, text in zip(problems, found, strict=True))


def test_commands_start_in_the_current_folder_whose_name_is_no_command() -> None:
    assert build_command(call("run_command", command="ls | wc"), "") == ("bash", "-c", "ls | wc")
    script = build_command(call("run_script", path="../run.py", arguments="e1 'a b'"), "co; rm")
    assert script == (
        "bash",
        "-c",
        'cd -- "$0" && exec "$@"',
        "/workspace/co; rm",
        "python3",
        "/workspace/run.py",
        "e1",
        "a b",
    )
    with pytest.raises(ToolRefused, match=r"scripts end in \.py and \.sh"):
        build_command(call("run_script", path="data.bin"), "")


def test_run_observation_states_ending_output_and_files_left_out() -> None:
    assert format_run(RESULT) == "exit status 0 after 1.2 s\noutput (13 bytes):\nRESULT e1 {}"
    stopped = RESULT._replace(exit=None, killed="wall", seconds=120.0, files=None, output="", left_out=("'x': a link",))
    assert format_run(stopped) == (
        "stopped: it took longer than its time limit, after 120.0 s\nno files came back: the workspace is as it was before\n"
        "files that were left out:\n    'x': a link\nno output"
    )
    assert finish_run(stopped, FILES, "code").files is FILES
    assert finish_run(RESULT._replace(files={"a": b""}), FILES, "code")[:2] == ({"a": b""}, "")


def test_observation_shows_terminal_escapes_and_never_sends_them() -> None:
    assert show_control_characters("a\x1b[31m\r\nb\rc\u202ed\te") == "a\\x1b[31m\nb\\x0dc\\u202ed\te"
    text = format_run(RESULT._replace(output="\x1b" * 60_000, left_out=("\x07" * 9_000,)))
    assert len(text) <= MAX_OBSERVATION and "\x1b" not in text and "\x07" not in text and "characters left out" in text


def test_observation_is_cut_to_head_and_tail() -> None:
    text = "a" * 10_000 + "b" * 10_000
    short = cut_observation(text)
    assert (
        short == "a" * 5_970 + "\n[... 8,060 characters left out ...]\n" + "b" * 5_970 and len(short) < MAX_OBSERVATION
    )


def test_helper_reply_replaces_the_whole_file_or_is_shown() -> None:
    edit = call("edit_file", path="run.py", instruction="print 2")
    assert finish_helper(edit, "print(2)", FILES, "").files["run.py"] == b"print(2)\n"
    assert finish_helper(edit, "x" * (MAX_FILE_BYTES + 1), FILES, "").refused
    answer = finish_helper(call("understand_file", path="run.py", question="what?"), "it prints\x1b", FILES, "")
    assert answer == (FILES, "", "it prints\\x1b", False)


PARTS = st.sampled_from(
    [
        "a",
        "b.py",
        "code",
        "..",
        ".",
        "",
        "/workspace",
        "/etc",
        ".git",
        "__pycache__",
        "é",
        "e\u0301",
        "\n",
        " ",
        "x" * 150,
    ]
)
PATHS = st.lists(PARTS, max_size=5).map("/".join)
FILE_CALLS = st.builds(
    lambda tool, path, other, text: ToolCall(
        tool,
        {argument.name: {"path": path, "from": path, "folder": path, "to": other}.get(argument.name, text) for argument in TOOLS[tool].arguments},
    ),
    st.sampled_from([name for name, tool in TOOLS.items() if tool.kind == "file"]),
    PATHS,
    PATHS,
    st.sampled_from(["", "1", "one", "two", "\ud800", "x\r\ny"]),
)  # fmt: skip


@given(st.lists(FILE_CALLS, max_size=8))
def test_file_tools_never_yield_a_forbidden_path_or_a_missing_folder(calls: list[ToolCall]) -> None:
    files, folder = dict(FILES), ""
    for each in calls:
        before = (files, folder)
        files, folder, observation, refused = apply_file_tool(each, files, folder)
        assert not [path for path in files if find_path_problem(path)] and has_folder(files, folder)
        assert not any(has_folder(files, path) for path in files)
        assert observation and len(observation) <= MAX_OBSERVATION and (not refused or (files, folder) == before)
