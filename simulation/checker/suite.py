"""Measure the checks on labelled transitions: recall per code, false alarms and undecidable lines."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from simulation.checker import checks
from simulation.checker.checks import CODES, CheckedLine
from simulation.checker.findings import ERROR, UNDECIDABLE
from simulation.lab.actions import Catalogue

# Labels of this project and of other simulators.
CORRECT = ("correct", "none", "0")
WRONG = ("type1", "type2", "obvious", "subtle", "1", "2")
# For these codes a warning counts as found, because leaked text never affects the verdict.
WARNING_CODES = ("L10", "L24")


class Share(NamedTuple):
    """The number of cases in a part and in the whole."""

    part: int
    whole: int

    def __str__(self) -> str:
        return f"{self.part} of {self.whole}" + (f" ({100 * self.part / self.whole:.0f}%)" if self.whole else "")

    @property
    def fraction(self) -> float | None:
        return self.part / self.whole if self.whole else None

    def add_case(self, hit: bool) -> "Share":
        """Return this share with one more case in the whole and, if `hit` is True, in the part."""
        return Share(self.part + hit, self.whole + 1)


NOTHING = Share(0, 0)


@dataclass
class SuiteResult:
    """The counts for a labelled file. `recall` covers the errors labelled as decidable, `beyond` all others."""

    recall: Share = NOTHING
    false_alarms: Share = NOTHING
    undecidable: Share = NOTHING
    beyond: Share = NOTHING  # errors labelled as not decidable, and how many were found nevertheless
    malformed: int = 0
    recall_by_code: dict[str, Share] = field(default_factory=dict)
    named_by_code: dict[str, Share] = field(default_factory=dict)  # found under the same code as the label
    alarms_by_code: dict[str, int] = field(default_factory=dict)  # findings of severity error on correct lines
    found_by_code: dict[str, int] = field(default_factory=dict)  # findings of severity error on wrong lines
    misses: list[str] = field(default_factory=list)
    alarms: list[str] = field(default_factory=list)

    def add_line(self, line: CheckedLine) -> None:
        """Add the result of one checked line to the counts."""
        if line.report is None:
            self.malformed += 1
            return
        truth = str(line.data.get("truth", "")).lower()
        self.undecidable = self.undecidable.add_case(line.report.verdict == UNDECIDABLE)
        if truth in CORRECT:
            self._count_correct_line(line)
        # Errors that only an expert can find are not expected of the checks, so recall leaves them out.
        elif truth in WRONG and line.data.get("decidable") is False:
            self.beyond = self.beyond.add_case(line.report.verdict == ERROR)
        elif truth in WRONG:
            self._count_wrong_line(line)

    def _count_correct_line(self, line: CheckedLine) -> None:
        assert line.report is not None
        codes = {finding.code for finding in line.report.error_findings}
        self.false_alarms = self.false_alarms.add_case(bool(codes))
        for code in codes:
            self.alarms_by_code[code] = self.alarms_by_code.get(code, 0) + 1
        self.alarms += [f"{line.data.get('id')}: {', '.join(sorted(codes))}"] if codes else []

    def _count_wrong_line(self, line: CheckedLine) -> None:
        assert line.report is not None
        broken = str(line.data.get("code", ""))
        error_codes = {finding.code for finding in line.report.error_findings}
        decided_codes = {finding.code for finding in line.report.findings if finding.decidable}
        is_found = bool(error_codes) or (broken in WARNING_CODES and broken in decided_codes)
        self.recall = self.recall.add_case(is_found)
        self.recall_by_code[broken] = self.recall_by_code.get(broken, NOTHING).add_case(is_found)
        self.named_by_code[broken] = self.named_by_code.get(broken, NOTHING).add_case(
            broken in error_codes | decided_codes
        )
        for code in error_codes:
            self.found_by_code[code] = self.found_by_code.get(code, 0) + 1
        self.misses += [] if is_found else [f"{line.data.get('id')}: {broken}"]


def measure_suite(path: Path, catalogue: Catalogue | None = None) -> SuiteResult:
    """Run the checks on a labelled file and count the results."""
    with path.open("rb") as stream:
        return tally_lines(checks.check_lines(stream, catalogue))


def tally_lines(lines_checked: Iterable[CheckedLine]) -> SuiteResult:
    result = SuiteResult()
    for line in lines_checked:
        result.add_line(line)
    return result


def count_findings_by_code(result: SuiteResult) -> list[tuple[str, int, int]]:
    """Return (code, wrong lines with an error of that code, correct lines with one) for every code, as counts."""
    return [(code, result.found_by_code.get(code, 0), result.alarms_by_code.get(code, 0)) for code in CODES]
