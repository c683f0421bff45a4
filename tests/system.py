"""Installs what the tests need from the system, where it may: a Chromium of Debian's, PostgreSQL and Redis.

Elsewhere (not Debian, not root) it says what to install; the tests that need it skip with the same words.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

SHELL = "chromium-headless-shell"  # Chromium without windows of its own: the same engine for a quarter of the time
PACKAGES = {
    SHELL: SHELL,
    "chromium": "chromium",
    "initdb": "postgresql",
    "redis-server": "redis-server",
    "systemd-analyze": "systemd",
}


def found(program: str) -> str | None:
    """The program on PATH or where Debian keeps PostgreSQL's own."""
    debian = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"))
    return str(debian[-1]) if debian else shutil.which(program)


def lightest_browser() -> str:
    """The Chromium that is there; of two the headless shell."""
    return SHELL if found(SHELL) else "chromium"


def main() -> int:
    install([SHELL, "initdb", "redis-server"])
    if not found(SHELL):  # some distributions have the whole browser only
        install(["chromium"])
    return 0


def install(programs: list[str]) -> None:
    """Packages of the programs that are missing, each by itself: one that cannot be had keeps no other away."""
    wanted = [PACKAGES[program] for program in programs if not found(program)]
    if not wanted:
        return
    command = ["apt-get", "install", "-y", "--no-install-recommends"]
    if not shutil.which("apt-get") or os.geteuid() != 0:
        if wanted != [SHELL] or not found("chromium"):
            print(
                f"Some tests need {', '.join(wanted)}. On Debian: sudo {' '.join([*command, *wanted])}", file=sys.stderr
            )
        return
    print(f"Installing {', '.join(wanted)} for the tests (once)")
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for step in (["apt-get", "update", "-qq"], *([*command, package, "fonts-dejavu-core"] for package in wanted)):
        if subprocess.run(step, env=quiet, check=False, stdout=subprocess.DEVNULL).returncode != 0:
            print(f"could not run {' '.join(step)}; the tests that need it will say so", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
