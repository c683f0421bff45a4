"""Measure the checks on labelled transitions: recall per code, false alarms and undecidable lines.

`python -m simulation.checker.suite` writes the list of checks and the results as tables between the markers in docs/checker.md.
With `--sealed` it also measures the sealed half of the unseen suite and writes the tables that compare the two halves.
The sealed half is only for reports: it prints and writes aggregates, never a line.
"""

import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from scipy.stats import binomtest

from simulation.checker import checks
from simulation.checker.checks import CHECKS, CODES, CheckedLine
from simulation.checker.findings import ERROR, UNDECIDABLE
from simulation.lab import catalogue
from simulation.lab.actions import Catalogue

# Labels of this project and of other simulators.
CORRECT = ("correct", "none", "0")
WRONG = ("type1", "type2", "obvious", "subtle", "1", "2")
# For these codes a warning counts as found, because leaked text never affects the verdict.
WARNING_CODES = ("L10", "L24")
DEVELOPMENT, SEALED = "development.jsonl", "sealed.jsonl"  # the halves of the unseen suite
SUITES = (
    ("derived.jsonl", "Derived suite (development)"),
    ("foreign.jsonl", "Foreign spellings (development)"),
    (DEVELOPMENT, "Unseen suite, development half"),
    ("second.jsonl", "Second set (developed on since)"),
    ("third.jsonl", "Third set (developed on since)"),
    ("fourth.jsonl", "Fourth set (developed on since)"),
    ("unread.jsonl", "Unread set (no developer has opened it)"),
    ("handmade.jsonl", "Written by hand, in foreign spellings (never used for tuning)"),
)
UNSEEN_START = "<!-- unseen: written by python -m simulation.checker.suite --sealed -->"
UNSEEN_END = "<!-- end of unseen -->"
# A test compares the page with fresh tables, so the numbers in the documentation cannot become stale.
START, END = "<!-- suites: written by python -m simulation.checker.suite -->", "<!-- end of suites -->"
CHECKS_START, CHECKS_END = "<!-- checks: written by python -m simulation.checker.suite -->", "<!-- end of checks -->"


class Share(NamedTuple):
    """The number of cases in a part and in the whole."""

    part: int
    whole: int

    def __str__(self) -> str:
        return f"{self.part} of {self.whole}" + (f" ({100 * self.part / self.whole:.0f}%)" if self.whole else "")

    @property
    def interval(self) -> str:
        """Return the exact 95 % interval (Clopper-Pearson) in percent, or a dash without cases."""
        if not self.whole:
            return "-"
        low, high = binomtest(self.part, self.whole).proportion_ci(0.95, "exact")
        return f"{100 * low:.0f} to {100 * high:.0f}%"

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
    # Recall and false alarms of each kind of error and each style of writing, for the suites whose lines have them.
    recall_by_group: dict[str, Share] = field(default_factory=dict)
    alarms_by_group: dict[str, Share] = field(default_factory=dict)
    found_by_code: Counter[str] = field(default_factory=Counter)  # findings of severity error on wrong lines

    def add_line(self, line: CheckedLine) -> None:
        """Add the result of one checked line to the counts."""
        if line.report is None:
            self.malformed += 1
            return
        truth, code = str(line.data.get("truth", "")).lower(), str(line.data.get("code", ""))
        error_codes = {finding.code for finding in line.report.error_findings}
        self.undecidable = self.undecidable.add_case(line.report.verdict == UNDECIDABLE)
        groups = [f"{key}: {line.data[key]}" for key in ("kind", "style") if key in line.data]
        if truth in CORRECT:
            for group in groups:
                self.alarms_by_group[group] = self.alarms_by_group.get(group, NOTHING).add_case(bool(error_codes))
            self.false_alarms = self.false_alarms.add_case(bool(error_codes))
            self.alarms_by_code.update(error_codes)
        # Errors that only an expert can find are not expected of the checks, so recall leaves them out.
        elif truth in WRONG and line.data.get("decidable") is False:
            self.beyond = self.beyond.add_case(line.report.verdict == ERROR)
        elif truth in WRONG:
            # Some errors are an error under several codes; the label names one and lists the others.
            also = line.data.get("also")
            accepted = {code, *(also if isinstance(also, list) else ())}
            decided = error_codes | {finding.code for finding in line.report.findings if finding.decidable}
            is_named = bool(accepted & decided)
            is_found = bool(error_codes) or (code in WARNING_CODES and is_named)
            self.recall = self.recall.add_case(is_found)
            for group in groups:
                self.recall_by_group[group] = self.recall_by_group.get(group, NOTHING).add_case(is_found)
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


ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "checker.md"


def format_tables() -> str:
    """Measure all suites; return a summary table and a table of recall by code."""
    action_types = catalogue.load_catalogue(ROOT / "fixtures" / "actions")[0]
    results = [(title, measure_suite(ROOT / "fixtures" / "checker" / name, action_types)) for name, title in SUITES]
    return "\n".join([*_format_summary(results), "", *_format_codes(results)])


def insert_tables(page: str) -> str:
    """Return the page with new tables between the markers."""
    rows = [f"| {check.code} | {check.about} | {check.decided_if} |" for check in CHECKS]
    checks_table = "\n".join(["| Code | Check | Decided if |", "|---|---|---|", *rows])
    for start, table, end in ((CHECKS_START, checks_table, CHECKS_END), (START, format_tables(), END)):
        before, _, rest = page.partition(start)
        page = f"{before}{start}\n\n{table}\n\n{end}{rest.partition(end)[2]}"
    return page


def _format_summary(results: list[tuple[str, SuiteResult]]) -> list[str]:
    rows = [
        "| Suite | Decidable errors found | Correct lines called wrong | Undecidable lines | Other errors found |",
        "|---|---|---|---|---|",
    ]
    rows += [f"| {title} | {r.recall} | {r.false_alarms} | {r.undecidable} | {r.beyond} |" for title, r in results]
    return rows


def _format_codes(results: list[tuple[str, SuiteResult]]) -> list[str]:
    headings = " | ".join(f"{title.split(',')[0]}: found, under this code, false alarms" for title, _ in results)
    rows = [f"| Code | {headings} |", "|---|" + "---|" * len(results)]
    return rows + [f"| {code} | {' | '.join(_format_cell(result, code) for _, result in results)} |" for code in CODES]


def _format_cell(result: SuiteResult, code: str) -> str:
    by_code, named = result.recall_by_code.get(code, NOTHING), result.named_by_code.get(code, NOTHING)
    return f"{by_code.part} of {by_code.whole}, {named.part}, {result.alarms_by_code[code]}"


def format_unseen(development: SuiteResult, sealed: SuiteResult) -> str:
    """Return the tables of the two halves of the unseen suite: all, by kind of error and by style of writing."""
    heading = "Development: found | Sealed: found | 95% interval | Gap, points | Development: false alarms | Sealed: false alarms | 95% interval"
    row = _format_halves("all", (development.recall, sealed.recall), (development.false_alarms, sealed.false_alarms))
    lines = [f"| | {heading} |", "|---" * 8 + "|", row]
    for key, title in (("kind", "Kind of error"), ("style", "Style")):
        names = {
            name
            for result in (development, sealed)
            for name in (*result.recall_by_group, *result.alarms_by_group)
            if name.startswith(key)
        }
        lines += ["", f"| {title} | {heading} |", "|---" * 8 + "|"]
        for name in sorted(names):
            recall, alarms = (
                (getattr(development, part).get(name, NOTHING), getattr(sealed, part).get(name, NOTHING))
                for part in ("recall_by_group", "alarms_by_group")
            )
            lines.append(_format_halves(name.partition(": ")[2].replace("_", " "), recall, alarms))
    return "\n".join(lines)


def _format_halves(name: str, recall: tuple[Share, Share], alarms: tuple[Share, Share]) -> str:
    gap = "-"
    if recall[0].whole and recall[1].whole:
        gap = f"{100 * (recall[0].part / recall[0].whole - recall[1].part / recall[1].whole):.0f}"
    return f"| {name} | {recall[0]} | {recall[1]} | {recall[1].interval} | {gap} | {alarms[0]} | {alarms[1]} | {alarms[1].interval} |"


def insert_unseen(page: str) -> str:
    """Return the page with new tables of the unseen suite. Raises FileNotFoundError if a half is not there."""
    action_types = catalogue.load_catalogue(ROOT / "fixtures" / "actions")[0]
    halves = [measure_suite(ROOT / "fixtures" / "checker" / name, action_types) for name in (DEVELOPMENT, SEALED)]
    before, _, rest = page.partition(UNSEEN_START)
    return f"{before}{UNSEEN_START}\n\n{format_unseen(*halves)}\n\n{UNSEEN_END}{rest.partition(UNSEEN_END)[2]}"


if __name__ == "__main__":
    text = insert_tables(PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(insert_unseen(text) if "--sealed" in sys.argv[1:] else text, encoding="utf-8")
