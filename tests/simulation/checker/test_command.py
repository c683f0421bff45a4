"""check_transitions: output and exit status."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from tests.simulation.checker.bases import BASES


@pytest.fixture
def transition_file(tmp_path: Path):
    def write(*entries):
        path = tmp_path / "lines.jsonl"
        path.write_text("\n".join(e if isinstance(e, str) else json.dumps(e) for e in entries), encoding="utf-8")
        return str(path)

    return write


def run_command(*arguments):
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command("check_transitions", *arguments, stdout=out, stderr=err)
        status = 0
    except CommandError as error:
        status = error.returncode
    return status, out.getvalue(), err.getvalue()


def wrong_transition():
    # 1 mL was taken from 10 mL and 10 mL is left
    data = json.loads(json.dumps(BASES["transfer"]))
    data["outcome"]["new_materials"][0]["properties"]["volume"] = "10.0 mL"
    return data


def test_json_output_has_one_object_per_line_with_the_documented_keys(transition_file):
    status, out, err = run_command(
        transition_file({"id": "a", **BASES["mix"]}, {"id": 7, **wrong_transition()}), "--json"
    )
    first, second = map(json.loads, out.splitlines())
    assert (status, err) == (0, "")
    assert (first["id"], first["verdict"], first.keys()) == ("a", "ok", {"id", "verdict", "findings"})
    assert (second["id"], second["verdict"]) == (7, "error")
    assert all(
        set(f) == {"code", "severity", "decidable", "subject", "expected", "got", "text"} for f in second["findings"]
    )


def test_command_fails_for_unreadable_lines_and_not_for_findings(transition_file):
    assert run_command(transition_file(wrong_transition()))[0] == 0
    status, out, err = run_command(
        transition_file({"id": 1, **BASES["mix"]}, "{no json", "", wrong_transition()), "--json"
    )
    assert status == 1
    assert len(out.splitlines()) == 2
    assert err.startswith("line 2: not JSON")


@pytest.mark.parametrize("name", ["/no/such/file.jsonl", "/tmp", "a\0b"])
def test_command_exits_with_2_for_a_missing_file(name):
    assert run_command(name)[0] == 2


def test_truth_labels_change_nothing_in_the_output_except_an_additional_table(transition_file):
    labelled = run_command(
        transition_file(
            {"id": 1, **BASES["mix"], "truth": "correct"}, {"id": 2, **wrong_transition(), "truth": "type2"}
        )
    )[1]
    plain = run_command(transition_file({"id": 1, **BASES["mix"]}, {"id": 2, **wrong_transition()}))[1]
    assert labelled.startswith(plain)
    assert "errors found: 1 of 1 (100%)" in labelled
    assert "correct transitions called wrong: 0 of 1 (0%)" in labelled
    assert "errors found" not in plain


def test_output_escapes_terminal_control_codes(transition_file):
    out = run_command(transition_file({"id": "\x1b[31mred", **wrong_transition()}))[1]
    assert "\x1b" not in out and "L02 error" in out


@pytest.mark.parametrize("between", ["", "\n"])
def test_byte_order_mark_is_ignored(tmp_path, between):
    path = tmp_path / "marked.jsonl"
    path.write_text("\ufeff" + between + json.dumps({"id": 1, **BASES["mix"]}), encoding="utf-8")
    status, out, err = run_command(str(path), "--json")
    assert (status, err) == (0, "") and json.loads(out)["verdict"] == "ok"


def test_command_ends_quietly_when_the_pipe_is_closed(transition_file):
    # More than fits into a pipe's buffer, so that the command is still writing when the pipe is closed
    path = transition_file(*[{"id": number, **wrong_transition()} for number in range(600)])
    command = [sys.executable, "manage.py", "check_transitions", path, "--json"]
    with subprocess.Popen(command, cwd=settings.BASE_DIR, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stderr
        assert b"L02" in process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0
