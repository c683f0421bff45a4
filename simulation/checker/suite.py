"""How good the checks are on labelled transitions: recall per code, false alarms, share undecidable."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from simulation.checker import lines
from simulation.checker.findings import CODES, ERROR, UNDECIDABLE
from simulation.checker.lines import Line
from simulation.lab.actions import Catalogue

CORRECT = ("correct", "none", "0")
WRONG = ("type1", "type2", "obvious", "subtle", "1", "2")
# Found as a warning: text that leaks never decides a verdict.
WARNED = ("L10", "L24")


class Share(NamedTuple):
    """So many of so many."""

    part: int
    whole: int

    def __str__(self) -> str:
        return f"{self.part} of {self.whole}" + (f" ({100 * self.part / self.whole:.0f} %)" if self.whole else "")

    @property
    def value(self) -> float | None:
        return self.part / self.whole if self.whole else None

    def plus(self, hit: bool) -> "Share":
        return Share(self.part + hit, self.whole + 1)


NOTHING = Share(0, 0)


@dataclass
class SuiteResult:
    """Counts over a file. Recall is over errors that arithmetic or a rule can decide; the others stand apart."""

    recall: Share = NOTHING
    false_alarms: Share = NOTHING
    undecidable: Share = NOTHING
    beyond: Share = NOTHING  # errors marked as not decidable that were found all the same
    malformed: int = 0
    recall_by_code: dict[str, Share] = field(default_factory=dict)
    named_by_code: dict[str, Share] = field(default_factory=dict)  # found under the very code that was broken
    alarms_by_code: dict[str, int] = field(default_factory=dict)  # findings of severity error on correct lines
    found_by_code: dict[str, int] = field(default_factory=dict)  # findings of severity error on wrong lines
    misses: list[str] = field(default_factory=list)
    alarms: list[str] = field(default_factory=list)

    def add(self, line: Line) -> None:
        if line.report is None:
            self.malformed += 1
            return
        truth = str(line.data.get("truth", "")).lower()
        self.undecidable = self.undecidable.plus(line.report.verdict == UNDECIDABLE)
        if truth in CORRECT:
            self._correct(line)
        elif truth in WRONG and line.data.get("decidable") is False:
            self.beyond = self.beyond.plus(line.report.verdict == ERROR)
        elif truth in WRONG:
            self._wrong(line)

    def _correct(self, line: Line) -> None:
        assert line.report is not None
        codes = {finding.code for finding in line.report.errors}
        self.false_alarms = self.false_alarms.plus(bool(codes))
        for code in codes:
            self.alarms_by_code[code] = self.alarms_by_code.get(code, 0) + 1
        self.alarms += [f"{line.data.get('id')}: {', '.join(sorted(codes))}"] if codes else []

    def _wrong(self, line: Line) -> None:
        assert line.report is not None
        broken = str(line.data.get("code", ""))
        errors = {finding.code for finding in line.report.errors}
        warned = {finding.code for finding in line.report.findings if finding.decidable}
        found = bool(errors) or (broken in WARNED and broken in warned)
        self.recall = self.recall.plus(found)
        self.recall_by_code[broken] = self.recall_by_code.get(broken, NOTHING).plus(found)
        self.named_by_code[broken] = self.named_by_code.get(broken, NOTHING).plus(broken in errors | warned)
        for code in errors:
            self.found_by_code[code] = self.found_by_code.get(code, 0) + 1
        self.misses += [] if found else [f"{line.data.get('id')}: {broken}"]


def measure(path: Path, catalogue: Catalogue | None = None) -> SuiteResult:
    """The checks over a labelled file."""
    with path.open("rb") as stream:
        return tally(lines.read(stream, catalogue))


def tally(read: Iterable[Line]) -> SuiteResult:
    result = SuiteResult()
    for line in read:
        result.add(line)
    return result


def by_finding(result: SuiteResult) -> list[tuple[str, int, int]]:
    """(code, wrong lines on which it found an error, correct lines on which it raised a false alarm)."""
    return [(code, result.found_by_code.get(code, 0), result.alarms_by_code.get(code, 0)) for code in CODES]
