"""Ten attempts to break out of a sandbox: as root, as a user, and against sandboxes that were weakened on purpose."""

import io
import json
import os
import subprocess
from pathlib import Path

import pytest
from django.core.management import call_command

from simulation.replication.sandbox import exchange
from simulation.replication.sandbox.choosing import open_sandbox
from simulation.replication.sandbox.escapes.attempts import ESCAPES, run_escapes
from simulation.replication.trees import TakenFiles
from tests.support.weakened_sandboxes import weaken

ROOT = Path(__file__).resolve().parents[4]
NOBODY = 65534
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process as another user")
# What must get through in each weakened sandbox.
SUCCESSES = {
    1: "read {folder}",
    2: "change {folder}",
    3: "connect to a server of the host",
    4: "see a process of the host",
    5: "make a user namespace",
    6: "have 300 processes",
    7: "hold 320 MiB in 8 processes",
    8: "make 100,000 files",
    9: "print 20 MB",
    10: "return names that a workspace may not have",
}


def get_problems(report):
    return [attempt for escape in report for attempt in escape["attempts"] if not attempt["stopped_by"]]


@pytest.mark.slow
def test_sandbox_contains_all_ten_escapes():
    output = io.StringIO()
    call_command("sandbox_escapes", "--json", stdout=output)
    report = json.loads(output.getvalue())
    assert report["backend"] == open_sandbox().name and report["contained"] == 10
    assert [escape["number"] for escape in report["escapes"]] == list(range(1, 11))
    assert get_problems(report["escapes"]) == []


@pytest.mark.slow
@AS_ROOT
def test_sandbox_of_a_user_contains_all_ten_escapes():
    """User mode: everything runs as user 65534, with the interpreter of the system, which that user can read."""
    result = subprocess.run(
        ["/usr/bin/python3", "-m", "simulation.replication.sandbox.escapes"],
        cwd=ROOT,
        env={"PATH": os.defpath, "PYTHONDONTWRITEBYTECODE": "1"},
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.stdout, result.stderr
    backend, *escapes = map(json.loads, result.stdout.splitlines())
    assert backend == {"backend": "bubblewrap/user"}
    assert len(escapes) == 10 and get_problems(escapes) == []
    assert result.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("number", ESCAPES)
def test_escape_from_a_weakened_sandbox_is_reported(number, tmp_path, monkeypatch):
    tmp_path.chmod(0o755)
    # Without a process namespace the supervisor cannot end everything, and the host has to.
    monkeypatch.setattr(exchange, "GRACE_SECONDS", 0.5)
    if number == 10:
        monkeypatch.setattr(exchange, "take_files", lambda entries: TakenFiles(dict(entries), ()))
    [escape] = run_escapes(weaken(number, tmp_path), (number,), tmp_path)
    succeeded = [attempt.tried for attempt in escape.attempts if not attempt.stopped_by]
    assert not escape.contained
    assert any(tried.startswith(SUCCESSES[number].format(folder=tmp_path)) for tried in succeeded), succeeded
