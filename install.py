"""python install.py LOCK: install the packages of a lock file into .venv; run by make.

uv, itself a package, is installed first and installs the others in a tenth of pip's time. Where that fails, pip installs them.
Neither leaves a cache behind, nor compiled code of the many modules that nothing imports.
"""

import shutil
import subprocess
import sys
from pathlib import Path

VENV, TOOLS = Path(".venv"), Path(".tools")
PYTHON, UV = VENV / "bin" / "python", TOOLS / "uv" / "bin" / "uv"
PIP_INSTALL = [
    "-m",
    "pip",
    "install",
    "--disable-pip-version-check",
    "--no-cache-dir",
    "--no-compile",
    "--require-hashes",
]


def main(lock: str) -> int:
    """Return the exit code of the installer."""
    if sys.version_info < (3, 11):  # noqa: UP036  # `make` may have found an older one
        sys.exit("WetBench needs Python 3.11 or newer; name one with PYTHON=")
    print(f"Installing the packages of {lock} into {VENV} (once)", flush=True)
    if ensure_uv():
        if not PYTHON.exists():
            run(UV, "venv", "--quiet", "--python", sys.executable, VENV)
        # The cache is in this folder, so that its files become those of .venv without being copied.
        cache = TOOLS / "cache"
        options = ["--python", PYTHON, "--cache-dir", cache, "--require-hashes", "-r", lock]
        code = run(UV, "pip", "install", *options)
        shutil.rmtree(cache, ignore_errors=True)
        if code == 0:
            return 0
        print("uv could not install the packages; trying pip, which takes some minutes", flush=True)
    if not (PYTHON.exists() and has_pip(PYTHON)):
        run(sys.executable, "-m", "venv", VENV)
    return run(PYTHON, *PIP_INSTALL, "-r", lock)


def ensure_uv() -> bool:
    """Install uv unless its locked version is there. Return whether it is."""
    stamp, wanted = TOOLS / "uv" / "installed.lock", Path("installer.lock").read_text(encoding="utf-8")
    if UV.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return True
    # The Python that runs this may lack pip; a new virtual environment has it, but takes some seconds to create.
    python: str | Path = sys.executable
    if not has_pip(python):
        run(sys.executable, "-m", "venv", VENV)
        python = PYTHON
    shutil.rmtree(TOOLS / "uv", ignore_errors=True)
    if run(python, *PIP_INSTALL, "--quiet", "--target", TOOLS / "uv", "-r", "installer.lock") or not UV.exists():
        print("uv could not be installed; pip installs the packages, which takes some minutes", flush=True)
        return False
    stamp.write_text(wanted, encoding="utf-8")
    return True


def has_pip(python: "str | Path") -> bool:
    return subprocess.run([python, "-m", "pip", "--version"], check=False, capture_output=True).returncode == 0


def run(*command: "str | Path") -> int:
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
