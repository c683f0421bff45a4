"""A file of transitions, one JSON object a line, read one at a time. A line that cannot be read says why."""

import json
from codecs import BOM_UTF8
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from simulation.checker.checks import check
from simulation.checker.findings import Report
from simulation.checker.reading.transition import TransitionError
from simulation.lab.actions import Catalogue

LONGEST = 4_000_000  # bytes of one line


class Line(NamedTuple):
    """One line of the file: its report, or the error for which it has none."""

    number: int
    data: dict[str, Any]
    report: Report | None
    error: str = ""


def read(stream: BinaryIO, catalogue: Catalogue | None = None) -> Iterator[Line]:
    """Every line that is not blank, checked; nothing a line holds stops the next."""
    number = 0
    while raw := stream.readline(LONGEST + 1):
        number += 1
        if number == 1:
            raw = raw.removeprefix(BOM_UTF8)
        if len(raw) > LONGEST:
            while raw and not raw.endswith(b"\n"):
                raw = stream.readline(LONGEST)
            yield Line(number, {}, None, f"longer than {LONGEST} bytes")
        elif raw.strip():
            yield _line(number, raw, catalogue)


def _line(number: int, raw: bytes, catalogue: Catalogue | None) -> Line:
    try:
        data = json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
        report = check(data, catalogue)
    except TransitionError as problem:
        return Line(number, {}, None, str(problem))
    except RecursionError:
        return Line(number, {}, None, "nested too deep")
    except ValueError as problem:
        return Line(number, {}, None, f"not JSON: {str(problem)[:200]}")
    return Line(number, data, report)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")
