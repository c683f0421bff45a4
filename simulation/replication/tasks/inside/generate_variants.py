"""Write the data of variants: python generate_variants.py NUMBER ... writes the files of each to a folder of its number."""

import os
import sys
import traceback
from pathlib import Path


def main(numbers: list[str]) -> int:
    from generate import generate  # type: ignore[import-not-found]

    for number in numbers:
        folder = Path.cwd() / number
        folder.mkdir()
        # In a process of its own, so that the order of the variants cannot matter.
        if not (child := os.fork()):
            try:
                generate(int(number), folder)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
            finally:
                os._exit(1)
        if os.waitpid(child, 0)[1]:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
