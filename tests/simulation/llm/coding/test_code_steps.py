"""The history of a code episode in a prompt: full, window and summary, and what happens at the limits."""

from simulation.llm.coding.code_steps import render_brief, render_code_history, render_steps
from simulation.llm.histories import parse_history
from simulation.replication.values import CodeStepRecord, ToolCall

FULL, WINDOW = parse_history({"kind": "full"}), parse_history({"kind": "window", "k": 2})


def record_run(number: int, observation: str) -> CodeStepRecord:
    return CodeStepRecord(number, ToolCall("run_command", {"command": f"python run.py e{number}"}), observation, False)


def list_runs(count: int, length: int = 40) -> list[CodeStepRecord]:
    return [record_run(number, f"exit status 0 after 0.{number} s\n" + "x" * length) for number in range(1, count + 1)]


def test_brief_step_states_tool_short_arguments_and_how_it_ended() -> None:
    edit = ToolCall("replace", {"path": "code/a.py", "old": "a\nb", "new": "c"})
    assert render_brief(record_run(3, "exit status 1 after 0.2 s\nTraceback")) == (
        "Step 3: run_command python run.py e3: exit status 1 after 0.2 s"
    )
    assert render_brief(CodeStepRecord(4, edit, "x" * 1234, False)) == (
        "Step 4: replace code/a.py: 1,234 characters returned"
    )
    assert render_brief(CodeStepRecord(5, edit, "refused: no such text", True)) == "Step 5: replace code/a.py: refused"
    assert render_brief(CodeStepRecord(6, None, "x", True)) == "Step 6: the reply could not be read"
    command = ToolCall("run_command", {"command": "a\nTOOL: quit " + "b" * 500})
    assert render_brief(CodeStepRecord(7, command, "", False)).startswith("Step 7: run_command a TOOL: quit bbb")
    assert len(render_brief(CodeStepRecord(7, command, "", False))) < 150


def test_window_shows_the_last_steps_in_full_and_one_line_for_each_older_one() -> None:
    text = render_code_history(WINDOW, list_runs(4)).text
    assert text.startswith(
        "Step 1: run_command python run.py e1: exit status 0 after 0.1 s\n"
        "Step 2: run_command python run.py e2: exit status 0 after 0.2 s\n\nSTEP 3\n"
    )
    assert "STEP 4\n" in text and text.count("x" * 40) == 2


def test_first_history_states_that_nothing_has_been_done() -> None:
    assert render_code_history(FULL, []).text == "Nothing has been done yet."


def test_oldest_steps_become_one_line_when_the_limit_is_reached_and_stay_so_for_several_steps() -> None:
    one = len(render_steps(list_runs(1, 1000))[0])
    texts = [render_code_history(FULL, list_runs(count, 1000), most=4 * one).text for count in (4, 5, 6)]
    assert [text.count("STEP ") for text in texts] == [4, 3, 4]  # down to three quarters, then it grows again
    assert texts[1].startswith("Step 1: ") and texts[2].startswith(texts[1][: texts[1].rindex("STEP 5")])


def test_limit_counts_bytes_and_a_single_step_beyond_it_is_one_line() -> None:
    assert render_steps(list_runs(1, 1000), most=500) == [
        "Step 1: run_command python run.py e1: exit status 0 after 0.1 s"
    ]
    wide = [record_run(1, "exit status 0\n" + "é" * 300)]
    assert render_steps(wide, most=900)[0].startswith("STEP 1\n")
    assert render_steps(wide, most=600)[0].startswith("Step 1: ")  # 300 characters are 600 bytes
