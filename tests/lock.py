"""python tests/lock.py: create the lock files from the requirements; run by `make lock`.

Locked versions stay, unless a requirement needs another version or `--upgrade` is given.
"""

import subprocess
import sys
from pathlib import Path

LOCKS = {
    "requirements.lock": "requirements.txt",
    "tests/requirements.lock": "tests/requirements.txt",
    "tests/installer.lock": "tests/installer.txt",
}


def main(more: list[str]) -> int:
    for lock, requirements in LOCKS.items():
        options = ["--generate-hashes", "--universal", "--python-version", "3.11", "--no-annotate", "--quiet", *more]
        header = ["--custom-compile-command", "make lock"]
        uv = Path(sys.executable).with_name("uv")
        subprocess.run([uv, "pip", "compile", *options, *header, "--output-file", lock, requirements], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
