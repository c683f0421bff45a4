"""Write the list of checks and the results on the labelled suites as tables between the markers in docs/checker.md.

python -m simulation.checker.tables
"""

from pathlib import Path

from simulation.checker import suite
from simulation.checker.checks import CHECKS, CODES
from simulation.checker.suite import NOTHING, SuiteResult
from simulation.lab import catalogue

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "checker.md"
SUITES = (
    ("derived.jsonl", "Derived suite (development)"),
    ("foreign.jsonl", "Foreign spellings (development)"),
    ("handmade.jsonl", "Written by hand, in foreign spellings (never used for tuning)"),
)
# A test compares the page with fresh tables, so the numbers in the documentation cannot become stale.
START, END = "<!-- suites: written by python -m simulation.checker.tables -->", "<!-- end of suites -->"
CHECKS_START, CHECKS_END = "<!-- checks: written by python -m simulation.checker.tables -->", "<!-- end of checks -->"


def format_tables() -> str:
    """Measure all suites; return a summary table and a table of recall by code."""
    action_types = catalogue.load_catalogue(ROOT / "fixtures" / "actions")[0]
    results = [
        (title, suite.measure_suite(ROOT / "fixtures" / "checker" / name, action_types)) for name, title in SUITES
    ]
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


if __name__ == "__main__":
    PAGE.write_text(insert_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
