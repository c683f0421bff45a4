"""The findings of the checks, and the report with its verdict."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

ERROR, WARNING, INFO = "error", "warning", "info"
OK, UNDECIDABLE = "ok", "undecidable"
# Shown beside each finding; docs/checker.md describes the checks in full.
CHECK_TITLES: Mapping[str, str] = {
    "L01": "origin of materials",
    "L02": "volume balance",
    "L03": "dilution",
    "L04": "conservation of amounts",
    "L05": "container capacity",
    "L06": "physical state",
    "L07": "dead volume",
    "L08": "used-up materials",
    "L09": "unlimited supplies",
    "L10": "barcode in a text",
    "L11": "fields and allowed values",
    "L12": "units",
    "L13": "times and growth",
    "L14": "storage conditions",
    "L15": "measurable quantities",
    "L16": "settings of the action",
    "L17": "limits of seeing and pipetting",
    "L18": "number of outputs",
    "L19": "identity of materials",
    "L20": "agreement of readings",
    "L21": "separating wells",
    "L22": "success and reason for failure",
    "L23": "possible values",
    "L24": "prompt text",
}
CODES = tuple(CHECK_TITLES)


class Finding(NamedTuple):
    """One finding of a check. `decidable` is False if the check lacks data; such a finding is never an error."""

    code: str
    severity: str
    decidable: bool
    subject: str
    expected: str
    got: str
    tolerance: str
    text: str

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
    return Finding(code, ERROR, True, subject, expected, got, tolerance, text)


def warning_finding(code: str, subject: str, expected: str, got: str, text: str, decidable: bool = True) -> Finding:
    """Return a finding that does not affect the verdict."""
    return Finding(code, WARNING, decidable, subject, expected, got, "", text)


def undecided_finding(code: str, subject: str, text: str) -> Finding:
    """Return a finding that the check applies but lacks the data to decide."""
    return Finding(code, INFO, False, subject, "", "", "", text)


class Report(NamedTuple):
    """The verdict on one transition, all findings, and the codes that could and could not be decided."""

    verdict: str
    findings: tuple[Finding, ...]
    decided: tuple[str, ...]
    undecided: tuple[str, ...]

    @property
    def error_findings(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity == ERROR)

    @property
    def decided_share(self) -> float:
        """Return the share of the applicable codes that could be decided, from 0 to 1."""
        applicable = set(self.decided) | set(self.undecided)
        return len(self.decided) / len(applicable) if applicable else 0.0

    def to_json(self) -> dict[str, Any]:
        return {"verdict": self.verdict, "findings": [finding.to_json() for finding in self.findings]}


def build_report(items: Iterable[Finding | Decided]) -> Report:
    """Build a report. The verdict is error if any finding is one, undecidable if no amount was compared, else ok."""
    items = list(items)
    # Two checks of one code may yield the same finding, which is listed once. Findings are sorted, so that reports can
    # be compared.
    findings = tuple(sorted({item for item in items if isinstance(item, Finding)}))
    decisions = [item for item in items if isinstance(item, Decided)]
    decided = {item.code for item in decisions} | {finding.code for finding in findings if finding.decidable}
    has_quantity = any(item.quantity for item in decisions)
    has_error = any(finding.severity == ERROR for finding in findings)
    verdict = ERROR if has_error else OK if has_quantity else UNDECIDABLE
    # A code that was decided for one material counts as decided, even if another material lacks data.
    open_codes = {finding.code for finding in findings if not finding.decidable} - decided
    return Report(verdict, findings, tuple(sorted(decided)), tuple(sorted(open_codes)))
