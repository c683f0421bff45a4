"""The lock files contain what the requirements ask for, and only exact versions."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LOCKS = {
    "tests/installer.lock": ["tests/installer.txt"],
    "requirements.lock": ["requirements.txt"],
    "tests/requirements.lock": ["requirements.txt", "tests/requirements.txt"],
}


def parse_lock_file(name: str) -> dict[str, str]:
    """Return the block of each package in a lock file: its version and hashes."""
    blocks = re.split(r"\n(?=\S)", (ROOT / name).read_text(encoding="utf-8"))
    return {_normalise_name(block): block for block in blocks if not block.startswith("#")}


def _normalise_name(line: str) -> str:
    return re.sub(r"[._]", "-", re.split(r"[\[=<>~! ;]", line, maxsplit=1)[0].lower())


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_file_has_one_version_with_hashes_per_package(lock: str) -> None:
    for name, block in parse_lock_file(lock).items():
        assert re.match(r"[\w.-]+==[\w.]+( ;[^\\]*)? \\\n", block), name
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", block), name


@pytest.mark.parametrize(("lock", "files"), LOCKS.items())
def test_lock_file_has_every_requirement_at_its_exact_version(lock: str, files: list[str]) -> None:
    blocks = parse_lock_file(lock)
    for file in files:
        for line in (ROOT / file).read_text(encoding="utf-8").splitlines():
            if line and not line.startswith(("#", "-r")):
                version = re.search(r"==([\w.]+)", line)
                assert version, f"{file}: {line!r} is not exact"
                assert f"=={version[1]} " in blocks[_normalise_name(line)], (
                    f"{lock} has another version of {line}: run make lock"
                )


def test_lock_files_agree_on_shared_packages() -> None:
    app, tests = parse_lock_file("requirements.lock"), parse_lock_file("tests/requirements.lock")
    assert {name: tests[name].split(" ")[0] for name in app} == {name: app[name].split(" ")[0] for name in app}
