"""Write the tables of docs/checker.md, between their markers, from the files of the suites.

python -m simulation.checker.tables
"""

from pathlib import Path

from simulation.checker import suite
from simulation.checker.findings import CODES
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


def measured() -> str:
    """Measure all suites; return a summary table and a table of recall by code."""
    action_types = catalogue.read_directory(ROOT / "fixtures" / "actions")[0]
    results = [(title, suite.measure(ROOT / "fixtures" / "checker" / name, action_types)) for name, title in SUITES]
    return "\n".join([*_short(results), "", *_by_code(results)])


def with_tables(page: str) -> str:
    """Return the page with new tables between the markers."""
    before, _, rest = page.partition(START)
    after = rest.partition(END)[2]
    return f"{before}{START}\n\n{measured()}\n\n{END}{after}"


def _short(found: list[tuple[str, SuiteResult]]) -> list[str]:
    rows = [
        "| Suite | Decidable errors found | Correct lines called wrong | Undecidable lines | Other errors found |",
        "|---|---|---|---|---|",
    ]
    rows += [f"| {title} | {r.recall} | {r.false_alarms} | {r.undecidable} | {r.beyond} |" for title, r in found]
    return rows


def _by_code(found: list[tuple[str, SuiteResult]]) -> list[str]:
    headings = " | ".join(f"{title.split(',')[0]}: found, under this code, false alarms" for title, _ in found)
    rows = [f"| Code | {headings} |", "|---|" + "---|" * len(found)]
    return rows + [f"| {code} | {' | '.join(_cell(result, code) for _, result in found)} |" for code in CODES]


def _cell(result: SuiteResult, code: str) -> str:
    by_code, named = result.recall_by_code.get(code, NOTHING), result.named_by_code.get(code, NOTHING)
    return f"{by_code.part} of {by_code.whole}, {named.part}, {result.alarms_by_code.get(code, 0)}"


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
