"""Measure the checks on labelled transitions: recall per code, false alarms and undecidable lines."""

from collections import Counter
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
    alarms_by_code: Counter[str] = field(default_factory=Counter)  # findings of severity error on correct lines
    found_by_code: Counter[str] = field(default_factory=Counter)  # findings of severity error on wrong lines

    def add_line(self, line: CheckedLine) -> None:
        """Add the result of one checked line to the counts."""
        if line.report is None:
            self.malformed += 1
            return
        truth, code = str(line.data.get("truth", "")).lower(), str(line.data.get("code", ""))
        error_codes = {finding.code for finding in line.report.error_findings}
        self.undecidable = self.undecidable.add_case(line.report.verdict == UNDECIDABLE)
        if truth in CORRECT:
            self.false_alarms = self.false_alarms.add_case(bool(error_codes))
            self.alarms_by_code.update(error_codes)
        # Errors that only an expert can find are not expected of the checks, so recall leaves them out.
        elif truth in WRONG and line.data.get("decidable") is False:
            self.beyond = self.beyond.add_case(line.report.verdict == ERROR)
        elif truth in WRONG:
            is_named = code in error_codes | {finding.code for finding in line.report.findings if finding.decidable}
            is_found = bool(error_codes) or (code in WARNING_CODES and is_named)
            self.recall = self.recall.add_case(is_found)
            self.recall_by_code[code] = self.recall_by_code.get(code, NOTHING).add_case(is_found)
            self.named_by_code[code] = self.named_by_code.get(code, NOTHING).add_case(is_named)
            self.found_by_code.update(error_codes)


def measure_suite(path: Path, catalogue: Catalogue | None = None) -> SuiteResult:
    """Run the checks on a labelled file and count the results."""
    result = SuiteResult()
    with path.open("rb") as stream:
        for line in checks.check_lines(stream, catalogue):
            result.add_line(line)
    return result


def count_findings_by_code(result: SuiteResult) -> list[tuple[str, int, int]]:
    """Return (code, wrong lines with an error of that code, correct lines with one) for every code, as counts."""
    return [(code, result.found_by_code[code], result.alarms_by_code[code]) for code in CODES]
