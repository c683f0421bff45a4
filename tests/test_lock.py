"""The lock files hold what the requirements ask for, and nothing that is not exact."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LOCKS = {
    "requirements.lock": ["requirements.txt"],
    "tests/requirements.lock": ["requirements.txt", "tests/requirements.txt"],
}


def locked(name: str) -> dict[str, str]:
    """What stands in a lock file: the version of each package, and how many hashes follow it."""
    blocks = re.split(r"\n(?=\S)", (ROOT / name).read_text(encoding="utf-8"))
    return {_name(block): block for block in blocks if not block.startswith("#")}


def _name(line: str) -> str:
    return re.sub(r"[._]", "-", re.split(r"[\[=<>~! ;]", line, maxsplit=1)[0].lower())


@pytest.mark.parametrize("lock", LOCKS)
def test_every_line_of_a_lock_file_is_one_version_with_its_hashes(lock: str) -> None:
    for name, block in locked(lock).items():
        assert re.match(r"[\w.-]+==[\w.]+( ;[^\\]*)? \\\n", block), name
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", block), name


@pytest.mark.parametrize(("lock", "files"), LOCKS.items())
def test_a_lock_file_holds_every_requirement_at_the_version_asked_for(lock: str, files: list[str]) -> None:
    held = locked(lock)
    for file in files:
        for line in (ROOT / file).read_text(encoding="utf-8").splitlines():
            if line and not line.startswith(("#", "-r")):
                version = re.search(r"==([\w.]+)", line)
                assert version, f"{file}: {line!r} is not exact"
                assert f"=={version[1]} " in held[_name(line)], f"{lock} has another version of {line}: run make lock"


def test_what_the_application_and_the_tests_share_has_one_version() -> None:
    app, tests = locked("requirements.lock"), locked("tests/requirements.lock")
    assert {name: tests[name].split(" ")[0] for name in app} == {name: app[name].split(" ")[0] for name in app}
