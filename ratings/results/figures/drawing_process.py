"""Draw the figures of a document in a process of its own, whose 300 MB are free again when it ends.

This module imports no plotting library, so that workers need not load them.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ratings.results.figures.tables import Document

_one_at_a_time = threading.Lock()  # jobs of several threads
_ROOT = Path(__file__).resolve().parents[3]


class RenderedFigure(NamedTuple):
    """One figure for the screen: sanitised SVG, and its description in one sentence."""

    name: str
    profile: str
    svg: str
    summary: str


def draw_all(document: Document) -> Iterator[RenderedFigure]:
    """Yield what `render.render_all` yields for the document. Raises RuntimeError if the process fails; its log has the error."""
    command = [sys.executable, "-m", __name__]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with _one_at_a_time, subprocess.Popen(command, cwd=_ROOT, **pipes) as process:
        assert process.stdin and process.stdout
        try:
            with suppress(BrokenPipeError), process.stdin:  # it has ended; its exit code is reported below
                json.dump(document, process.stdin)
            for line in process.stdout:
                yield RenderedFigure(*json.loads(line))
        except BaseException:  # the caller needs no more figures, for example because its job was cancelled
            process.kill()
            raise
    if process.returncode:
        raise RuntimeError(f"the process that draws figures ended with exit code {process.returncode}")


def main() -> None:
    """Read a document from standard input and write its figures to standard output, one JSON list a line."""
    from ratings.results.figures import render

    for figure in render.render_all(json.load(sys.stdin)):
        print(json.dumps(figure), flush=True)


if __name__ == "__main__":
    main()
