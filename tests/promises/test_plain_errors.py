"""Error messages that are stored for pages or printed by commands contain no names of Python classes."""

import ast
import smtplib
from pathlib import Path

import pytest
from django.conf import settings

from ratings.raters import email_messages
from simulation.llm import prompt_sets
from simulation.providers import transport
from wetbench_site.text import describe_error

# Where a class is named on purpose, and who reads it.
ALLOWED = {
    "ratings/raters/email_messages.py": "the log",
    "simulation/leases/__init__.py": "the log",
    "simulation/runs/transition_checks.py": "the log",
    "simulation/checker/values.py": "programs: the type of a JSON value",
    "simulation/lab/action_format.py": "programs: the type of a parameter in an action object",
    "simulation/lab/environment/text_space.py": "programs: a repr",
    "simulation/recordings/trajectories.py": "programs: the class of an environment",
    "simulation/management/commands/check_transitions.py": "the type of a value in a file",
    "simulation/replication/grading/inside/call_values.py": "programs: the kind of a recorded value",
    "simulation/replication/grading/inside/module_parts.py": "the kind of a statement of Python in an agent's file",
    "simulation/replication/grading/inside/replay.py": "the class of an exception that an agent's code raised",
    "simulation/replication/tasks/inside/measure.py": "the class of an exception that an agent's code raised",
    "simulation/replication/sandbox/inside/attempting.py": "what stopped an attempt to break out",
    "simulation/replication/sandbox/inside/report_state.py": "programs: what stopped a check of the sandbox",
    "wetbench_site/observability/health.py": "monitoring: /readyz",
}


def find_named_classes(path: Path) -> list[int]:
    """Return the lines that read `type(x).__name__`, or `__class__.__name__`."""
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)]
    return [node.lineno for node in nodes if node.attr == "__name__" and is_class(node.value)]


def is_class(node: ast.expr) -> bool:
    is_type_call = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "type"
    return is_type_call or (isinstance(node, ast.Attribute) and node.attr == "__class__")


def test_modules_put_no_class_name_into_messages() -> None:
    folder = Path(settings.BASE_DIR)
    paths = [path for room in ("ratings", "simulation", "wetbench_site") for path in (folder / room).rglob("*.py")]
    named = {str(path.relative_to(folder)) for path in paths if find_named_classes(path)}
    # Logs name rows and frames by their classes.
    assert {name for name in named if name not in ALLOWED} <= {
        "simulation/engine/workers.py", "wetbench_site/observability/log_context.py",
    }  # fmt: skip
    assert set(ALLOWED) <= named


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused"),
        (FileNotFoundError(2, "No such file or directory", "x"), "No such file or directory"),
        (KeyError("form"), "'form' is missing"),
        (ValueError("line 1\nline 2"), "line 1 line 2"),
        (RuntimeError(), "no reason is given"),
    ],
)
def test_error_is_described_without_its_class(error: Exception, text: str) -> None:
    assert describe_error(error) == text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (smtplib.SMTPRecipientsRefused({"a@example.org": (550, b"no such\nuser")}), "the mail server answered 550 no such user"),
        (smtplib.SMTPAuthenticationError(535, b"bad credentials"), "the mail server answered 535 bad credentials"),
        (smtplib.SMTPServerDisconnected("Connection unexpectedly closed"), "Connection unexpectedly closed"),
        (TimeoutError("timed out"), "timed out"),
    ],
)  # fmt: skip
def test_mail_error_is_described_without_its_class(error: Exception, text: str) -> None:
    def fail() -> None:
        raise error

    assert email_messages._run_safely(fail) == text


def test_connection_error_of_a_provider_is_described_without_its_class() -> None:
    _, text = transport._describe_failure(ConnectionResetError(104, "Connection reset by peer"), False)
    assert text == "the connection failed: [Errno 104] Connection reset by peer"


def test_unreadable_prompt_folder_is_described_without_its_class(tmp_path: Path) -> None:
    with pytest.raises(prompt_sets.PromptSetError, match=r"cannot be read as a folder \(No such file or directory\)"):
        prompt_sets.load_folder(tmp_path / "none", "none")
