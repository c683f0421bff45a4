"""Installs what the tests need from the system, where it may: Debian's Chromium, PostgreSQL and Redis.

Elsewhere (not Debian, not root) it says what to install; the tests that need it skip with the same words.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGES = {"chromium": "chromium", "initdb": "postgresql", "redis-server": "redis-server"}


def found(program: str) -> str | None:
    """The program on PATH or where Debian keeps PostgreSQL's own."""
    debian = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"))
    return str(debian[-1]) if debian else shutil.which(program)


def missing() -> list[str]:
    return [package for program, package in PACKAGES.items() if not found(program)]


def main() -> int:
    wanted = missing()
    if not wanted:
        return 0
    command = ["apt-get", "install", "-y", "--no-install-recommends", *wanted, "fonts-dejavu-core"]
    if not shutil.which("apt-get") or os.geteuid() != 0:
        print(f"Some tests need {', '.join(wanted)}. On Debian: sudo {' '.join(command)}", file=sys.stderr)
        return 0
    print(f"Installing {', '.join(wanted)} for the tests (once)")
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for step in (["apt-get", "update", "-qq"], command):
        if subprocess.run(step, env=quiet, check=False, stdout=subprocess.DEVNULL).returncode != 0:
            print(f"could not run {' '.join(step)}; the tests that need it will say so", file=sys.stderr)
            break
    return 0


if __name__ == "__main__":
    sys.exit(main())
