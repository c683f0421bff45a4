"""The findings of the checks, and the report with its verdict."""

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any, NamedTuple

from simulation.checker.reading import units

ERROR, WARNING, INFO = "error", "warning", "info"
OK, UNDECIDABLE = "ok", "undecidable"


class Finding(NamedTuple):
    """One finding of a check. `decidable` is False if the check lacks data; such a finding is never an error."""

    code: str
    severity: str
    decidable: bool
    subject: str
    expected: str
    got: str
    text: str
    tolerance: str = ""  # as applied; empty if no amounts were compared

    def to_json(self) -> dict[str, Any]:
        # Stored findings and the API have no tolerance; docs/checker.md lists the tolerances.
        return {key: value for key, value in self._asdict().items() if key != "tolerance"}


class Decided(NamedTuple):
    """A note that a check of this code had the data for a comparison. `quantity` is True if it compared an amount."""

    code: str
    quantity: bool = False


Findings = Iterator[Finding | Decided]


def error_finding(code: str, subject: str, expected: str, got: str, text: str, tolerance: str = "") -> Finding:
    """Return a finding that something is impossible. It makes the verdict an error."""
    return Finding(code, ERROR, True, subject, expected, got, text, tolerance)


def warning_finding(code: str, subject: str, expected: str, got: str, text: str, decidable: bool = True) -> Finding:
    """Return a finding that does not affect the verdict."""
    return Finding(code, WARNING, decidable, subject, expected, got, text)


def undecided_finding(code: str, subject: str, text: str) -> Finding:
    """Return a finding that the check applies but lacks the data to decide."""
    return Finding(code, INFO, False, subject, "", "", text)


def require(code: str, holds: bool, subject: str, expected: str, got: str, text: str) -> Findings:
    """Yield a note that the check was decided and, unless the condition holds, an error."""
    yield Decided(code)
    if not holds:
        yield error_finding(code, subject, expected, got, text)


def compare(
    code: str,
    subject: str,
    expected: Decimal,
    found: Decimal,
    dimension: str,
    text: str,
    above: Decimal | None = None,
    below: Decimal | None = None,
    limit: str | None = None,
    shown: tuple[str, str] | None = None,
) -> Findings:
    """Yield a note that two amounts were compared and, if the one found is out of tolerance, an error.

    The amounts are in the base unit of their dimension. `above` and `below` are how much the amount found may exceed
    and fall short of the expected one; None allows any difference. `limit` is written before the expected amount; it is
    by default "at most" or "at least" if only one side is limited. `shown` has both amounts as the finding shows them,
    by default in the dimension's units. The tolerance of the finding is the one applied.
    """
    yield Decided(code, quantity=True)
    is_above = above is not None and found > expected + above
    if is_above or (below is not None and found < expected - below):
        if limit is None:
            limit = "at most" if below is None else "at least" if above is None else ""
        expected_text, found_text = shown or [units.format_value(value, dimension) for value in (expected, found)]
        tolerance = units.format_value((above if is_above else below) or Decimal(0), dimension)
        yield error_finding(code, subject, f"{limit} {expected_text}".strip(), found_text, text, tolerance)


class Report(NamedTuple):
    """The verdict on one transition, all findings, and the codes that could and could not be decided."""

    verdict: str
    findings: tuple[Finding, ...]
    decided: tuple[str, ...]
    undecided: tuple[str, ...]

    @property
    def error_findings(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity == ERROR)

    def to_json(self) -> dict[str, Any]:
        return {"verdict": self.verdict, "findings": [finding.to_json() for finding in self.findings]}


def build_report(items: Iterable[Finding | Decided]) -> Report:
    """Build a report. The verdict is error if any finding is one, undecidable if no amount was compared, else ok."""
    items = list(items)
    # Two checks of one code may yield the same finding, if with another tolerance; it is listed once. Findings are
    # sorted, so that reports can be compared.
    findings = tuple(sorted({item[:-1]: item for item in items if isinstance(item, Finding)}.values()))
    decisions = [item for item in items if isinstance(item, Decided)]
    decided = {item.code for item in decisions} | {finding.code for finding in findings if finding.decidable}
    has_quantity = any(item.quantity for item in decisions)
    has_error = any(finding.severity == ERROR for finding in findings)
    verdict = ERROR if has_error else OK if has_quantity else UNDECIDABLE
    # A code that was decided for one material counts as decided, even if another material lacks data.
    open_codes = {finding.code for finding in findings if not finding.decidable} - decided
    return Report(verdict, findings, tuple(sorted(decided)), tuple(sorted(open_codes)))
