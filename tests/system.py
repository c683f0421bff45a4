"""Install what the tests need from the system, if possible: Debian's Chromium, PostgreSQL, Redis and bubblewrap.

Elsewhere (not Debian, not root) print what to install; the tests that need it are skipped with the same message.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

SHELL = "chromium-headless-shell"  # Chromium without a user interface: the same engine in a quarter of the time
PACKAGES = {
    SHELL: SHELL,
    "chromium": "chromium",
    "initdb": "postgresql",
    "redis-server": "redis-server",
    "bwrap": "bubblewrap",
    "systemd-analyze": "systemd",
    "pdflatex": "texlive-latex-recommended",
}


def find_program(program: str) -> str | None:
    """Return the path of the program on PATH or in Debian's PostgreSQL folder, or None."""
    postgresql_paths = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"))
    return str(postgresql_paths[-1]) if postgresql_paths else shutil.which(program)


def choose_browser() -> str:
    """Return the installed Chromium, the headless shell if there are both."""
    return SHELL if find_program(SHELL) else "chromium"


def main() -> int:
    install_programs([SHELL, "initdb", "redis-server", "bwrap"])
    if not find_program(SHELL):  # some distributions have only the full browser
        install_programs(["chromium"])
    if os.environ.get("CI"):  # one test compiles LaTeX tables; elsewhere it is skipped, because TeX is large
        install_programs(["pdflatex"])
    return 0


def install_programs(programs: list[str]) -> None:
    """Install the packages of missing programs one by one, so that one that is not available does not prevent the others."""
    packages = [PACKAGES[program] for program in programs if not find_program(program)]
    if not packages:
        return
    command = ["apt-get", "install", "-y", "--no-install-recommends"]
    if not shutil.which("apt-get") or os.geteuid() != 0:
        if packages != [SHELL] or not find_program("chromium"):
            print(
                f"Some tests need {', '.join(packages)}. On Debian: sudo {' '.join([*command, *packages])}",
                file=sys.stderr,
            )
        return
    print(f"Installing {', '.join(packages)} for the tests (once)")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for step in (["apt-get", "update", "-qq"], *([*command, package, "fonts-dejavu-core"] for package in packages)):
        if subprocess.run(step, env=environment, check=False, stdout=subprocess.DEVNULL).returncode != 0:
            print(f"could not run {' '.join(step)}; the tests that need it will be skipped", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
