"""Check a file of transitions, one JSON object per line, without loading the whole file."""

import json
from codecs import BOM_UTF8
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from simulation.checker.checks import check_transition
from simulation.checker.findings import Report
from simulation.checker.reading.transition import TransitionError
from simulation.lab.actions import Catalogue

MAX_LINE_BYTES = 4_000_000  # maximum length of one line; limits the memory that a foreign file can use


class CheckedLine(NamedTuple):
    """The result for one line of a file: its report, or the error that explains why there is no report."""

    number: int
    data: dict[str, Any]
    report: Report | None
    error: str = ""


def check_lines(stream: BinaryIO, catalogue: Catalogue | None = None) -> Iterator[CheckedLine]:
    """Yield the result for every line that is not blank. An invalid line does not stop the check of later lines."""
    number = 0
    while raw := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        if number == 1:
            # Windows editors start a file with a byte order mark, which JSON does not allow.
            raw = raw.removeprefix(BOM_UTF8)
        if len(raw) > MAX_LINE_BYTES:
            # The rest of the line is skipped in pieces, so that the whole line is never in memory.
            while raw and not raw.endswith(b"\n"):
                raw = stream.readline(MAX_LINE_BYTES)
            yield CheckedLine(number, {}, None, f"longer than {MAX_LINE_BYTES} bytes")
        elif raw.strip():
            yield _check_line(number, raw, catalogue)


def _check_line(number: int, raw: bytes, catalogue: Catalogue | None) -> CheckedLine:
    try:
        # NaN and Infinity are no JSON, but Python accepts them; no check could compare them.
        data = json.loads(raw.decode("utf-8"), parse_constant=_reject_constant)
        report = check_transition(data, catalogue)
    except TransitionError as error:
        return CheckedLine(number, {}, None, str(error))
    # Python's JSON parser recurses; a line of 100,000 brackets must not end the command.
    except RecursionError:
        return CheckedLine(number, {}, None, "nested too deep")
    except ValueError as error:
        return CheckedLine(number, {}, None, f"not JSON: {str(error)[:200]}")
    return CheckedLine(number, data, report)


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")
