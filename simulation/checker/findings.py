"""What a check says: findings, and the report they add up to."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

ERROR, WARNING, INFO = "error", "warning", "info"
OK, UNDECIDABLE = "ok", "undecidable"
# What each code is about; docs/checker.md says more.
LAWS: Mapping[str, str] = {
    "L01": "nothing from nowhere",
    "L02": "volume",
    "L03": "dilution",
    "L04": "amounts",
    "L05": "capacity",
    "L06": "phase",
    "L07": "dead volume",
    "L08": "used up",
    "L09": "unlimited supply",
    "L10": "barcode in words",
    "L11": "fields and their values",
    "L12": "units",
    "L13": "time",
    "L14": "surroundings",
    "L15": "what can be measured",
    "L16": "as it was set",
    "L17": "what can be seen or pipetted",
    "L18": "number of outputs",
    "L19": "identity",
    "L20": "readings",
    "L21": "separating changes nothing",
    "L22": "success and failure",
    "L23": "possible values",
    "L24": "words of a prompt",
}
CODES = tuple(LAWS)


class Finding(NamedTuple):
    """One thing a check has to say. `decidable` is False where it could not tell; then it is never an error."""

    code: str
    severity: str
    decidable: bool
    subject: str
    expected: str
    got: str
    tolerance: str
    text: str

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in self._asdict().items() if key != "tolerance"}


class Ran(NamedTuple):
    """A check of this code had what it needs and compared something; `quantity` if that was an amount."""

    code: str
    quantity: bool = False


Said = Iterator[Finding | Ran]


def error(code: str, subject: str, expected: str, got: str, text: str, tolerance: str = "") -> Finding:
    return Finding(code, ERROR, True, subject, expected, got, tolerance, text)


def warning(code: str, subject: str, expected: str, got: str, text: str, decidable: bool = True) -> Finding:
    return Finding(code, WARNING, decidable, subject, expected, got, "", text)


def undecided(code: str, subject: str, text: str) -> Finding:
    """The check applies here and could not be decided: unknown stays unknown."""
    return Finding(code, INFO, False, subject, "", "", "", text)


class Report(NamedTuple):
    """All findings of one transition, which codes were decided, and the verdict they give."""

    verdict: str
    findings: tuple[Finding, ...]
    decided: tuple[str, ...]
    undecided: tuple[str, ...]

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity == ERROR)

    @property
    def coverage(self) -> float:
        """Share of the codes that applied here which could be decided."""
        asked = set(self.decided) | set(self.undecided)
        return len(self.decided) / len(asked) if asked else 0.0

    def to_json(self) -> dict[str, Any]:
        return {"verdict": self.verdict, "findings": [finding.to_json() for finding in self.findings]}


def report(said: Iterable[Finding | Ran]) -> Report:
    """The verdict is error if any finding is, undecidable if no amount could be compared, else ok."""
    said = list(said)
    findings = tuple(sorted({item for item in said if isinstance(item, Finding)}))
    ran = [item for item in said if isinstance(item, Ran)]
    decided = {item.code for item in ran} | {finding.code for finding in findings if finding.decidable}
    quantity = any(item.quantity for item in ran)
    wrong = any(finding.severity == ERROR for finding in findings)
    verdict = ERROR if wrong else OK if quantity else UNDECIDABLE
    open_codes = {finding.code for finding in findings if not finding.decidable} - decided
    return Report(verdict, findings, tuple(sorted(decided)), tuple(sorted(open_codes)))
