"""python tests/lock.py: the lock files made anew from the requirements; run by `make lock`.

Versions that are locked stay, unless a requirement asks for another or `--upgrade` does.
"""

import subprocess
import sys
from pathlib import Path

LOCKS = {"requirements.lock": "requirements.txt", "tests/requirements.lock": "tests/requirements.txt"}


def main(more: list[str]) -> int:
    for lock, wanted in LOCKS.items():
        told = ["--generate-hashes", "--universal", "--python-version", "3.11", "--no-annotate", "--quiet", *more]
        header = ["--custom-compile-command", "make lock"]
        uv = Path(sys.executable).with_name("uv")
        subprocess.run([uv, "pip", "compile", *told, *header, "--output-file", lock, wanted], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
