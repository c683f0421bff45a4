"""Files of exported episodes: one line of JSON for each that can be exported, and the reasons for those that cannot."""

import json
import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from simulation.lab.errors import LabError

Row = TypeVar("Row")


class LeftOutError(LabError):
    """The episode cannot be exported. The message is the reason, worded equally for all such episodes."""


class ExportResult(NamedTuple):
    """The number of lines written, and how many episodes were left out for each reason."""

    number_written: int
    left_out: Counter[str]


BuildLine = Callable[[Row], dict[str, Any]]


def write_lines(rows: Iterable[Row], path: Path, build_line: BuildLine[Row]) -> ExportResult:
    """Write what `build_line` returns for each row; it raises LeftOutError for a row that is left out. Raises OSError."""
    number_written, left_out = 0, Counter[str]()
    # Written under another name and renamed, so that the file is either complete or absent.
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with part.open("x", encoding="utf-8") as file:
            for row in rows:
                try:
                    file.write(json.dumps(build_line(row)) + "\n")
                    number_written += 1
                except LeftOutError as reason:
                    left_out[str(reason)] += 1
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return ExportResult(number_written, left_out)
