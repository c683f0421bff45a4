"""The grade of an episode: its outcome, and everything that it follows from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

from simulation.replication.comparing import (
    PAPER_REL,
    ComparedValue,
    GoldValueError,
    Report,
    compare_cases,
    passes,
    read_report,
    read_reported_values,
)
from simulation.replication.grading.extracting import Extraction
from simulation.replication.grading.literals import find_gold_numbers
from simulation.replication.grading.measuring import Measurement
from simulation.replication.grading.probing import Probes
from simulation.replication.values import BASE_VARIANT, Task, TaskValues, TestCase

GRADING_VERSION = "1"  # of these rules; increase it if the same files and reports could get another grade
Outcome = Literal[
    "solved",
    "unreported",
    "reported_only",
    "wrong",
    "crashed",
    "hidden_left",
    "refused",
    "tampered",
    "unfinished",
    "fault",
]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
OUTCOME_TEXTS: Mapping[Outcome, str] = {
    "solved": "reported numbers and code are right, on the public and on secret data",
    "unreported": "the code is right, the reported numbers are not",
    "reported_only": "the reported numbers are right; the code is not, or cannot be tested on other data",
    "wrong": "the reported numbers are wrong; so is the code, or it cannot be tested on other data",
    "crashed": "the code does not run on the public data",
    "hidden_left": "a hidden function was not filled in",
    "refused": "the code uses something that a hidden function must not use, or is too large",
    "tampered": "the code wrote results by itself",
    "unfinished": "the episode ended without a submission",
    "fault": "grading failed, through no fault of the agent",
}


class GradeFinding(NamedTuple):
    """Something that a person who reads the grade should see. Kinds: FINDING_KINDS."""

    kind: str
    text: str


FINDING_KINDS = (
    "not filled in",
    "screen",
    "gold number in code",
    "error",
    "error on secret data",
    "tampered",
    "report",
    "cannot be tested",
    "fault",
)


@dataclass(frozen=True)
class Grade:
    """The grade of one episode.

    `measured` is the rerun on the public data, `robust` the reruns on secret data; None: it was not run, and `robust_text` states why. `compared` has the rows of
    "reported" (under the 5 % rule), "measured", and "secret 1", "secret 2" (under the tolerances of the task). `patch` has the bodies by
    function id and the helpers by path. `probes` are information, not a criterion.
    """

    outcome: Outcome
    paper_pass: bool
    measured: bool | None
    robust: bool | None
    findings: tuple[GradeFinding, ...] = ()
    outside: tuple[str, ...] = ()
    compared: Mapping[str, tuple[ComparedValue, ...]] = field(default_factory=dict)
    patch: Mapping[str, Any] = field(default_factory=dict)
    probes: Probes | None = None
    version: str = GRADING_VERSION

    @property
    def solved(self) -> bool:
        return self.outcome == "solved"

    @property
    def robust_text(self) -> str:
        """Return the result of the reruns on secret data in words."""
        if self.robust is None:
            return "cannot be tested" if self.has_finding("cannot be tested") else "not run"
        return "right" if self.robust else "wrong"

    def has_finding(self, kind: str) -> bool:
        return any(finding.kind == kind for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "outcome": self.outcome,
            "solved": self.solved,
            "paper_pass": self.paper_pass,
            "measured": self.measured,
            "robust": self.robust,
            "findings": [finding._asdict() for finding in self.findings],
            "outside": list(self.outside),
            "compared": {source: [row.to_json() for row in rows] for source, rows in self.compared.items()},
            "patch": dict(self.patch),
            "probes": None if self.probes is None else self.probes.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Grade":
        return cls(
            outcome=data["outcome"],
            paper_pass=data["paper_pass"],
            measured=data["measured"],
            robust=data["robust"],
            findings=tuple(GradeFinding(**finding) for finding in data["findings"]),
            outside=tuple(data["outside"]),
            compared={source: tuple(map(ComparedValue.from_json, rows)) for source, rows in data["compared"].items()},
            patch=data["patch"],
            probes=None if data["probes"] is None else Probes.from_json(data["probes"]),
            version=data["version"],
        )


def conclude(
    task: Task,
    cases: Sequence[str],
    ending: str,
    reported: str | Mapping[str, Any] | None,
    extraction: Extraction | None,
    base: Measurement | None,
    secret: Measurement | None,
    probes: Probes | None,
    gold: Mapping[int, TaskValues],
    fault: str = "",
) -> Grade:
    """Return the grade that follows from the results of the stages. Runs nothing.

    `cases` are the test cases that reach a hidden function; all of them if none is hidden. `ending` is "submitted", or another ending of the
    episode. `reported` is what was submitted, as text or as parsed JSON. `gold` has the values of each variant that was run, for the same profile.
    The outcome is the first of fault, unfinished, tampered, refused, hidden_left and crashed that applies. Otherwise the reported numbers
    and the reruns decide. Code of a task without secret data cannot be tested on such data, so no episode of it is solved.
    """
    chosen = [case for case in task.test_cases if case.id in set(cases)]
    report = _read_reported(reported) if ending == "submitted" else Report({}, ())
    findings = _list_findings(task, extraction, base, secret, gold)
    findings += [GradeFinding("report", problem) for problem in report.problems]
    compared: dict[str, tuple[ComparedValue, ...]] = {}
    try:
        if not chosen:
            raise GoldValueError(f"no test case of {task.slug} is among {', '.join(cases) or 'the relevant ones'}")
        compared["reported"] = tuple(compare_cases(chosen, gold.get(BASE_VARIANT, {}), report.values, PAPER_REL))
        compared |= _compare_measured(chosen, base, gold, ["measured"])
        secrets = [f"secret {number}" for number in range(1, 1 + len(secret.values if secret else ()))]
        compared |= _compare_measured(chosen, secret, gold, secrets)
    except GoldValueError as error:
        fault = fault or str(error)
    if fault:
        findings.insert(0, GradeFinding("fault", fault))
    paper_pass = bool(compared.get("reported")) and passes(compared["reported"])
    measured = _pass_all(compared, ["measured"]) if base else None
    robust = (
        _pass_all(compared, [name for name in compared if name.startswith("secret")])
        if secret and task.has_variants
        else None
    )
    has_secrets = any(variant != BASE_VARIANT for variant in gold)
    outcome = _choose_outcome(task, ending, extraction, base, secret, fault, has_secrets)
    return Grade(
        outcome or _compare_outcome(paper_pass, bool(measured and robust)),
        paper_pass,
        measured,
        robust,
        tuple(findings),
        extraction.outside if extraction else (),
        compared,
        describe_patch(extraction),
        probes,
    )


def _read_reported(reported: str | Mapping[str, Any] | None) -> Report:
    if reported is None:
        return Report({}, ())
    return read_report(reported) if isinstance(reported, str) else read_reported_values(reported)


def _compare_measured(
    cases: Sequence[TestCase], measurement: Measurement | None, gold: Mapping[int, TaskValues], names: Sequence[str]
) -> dict[str, tuple[ComparedValue, ...]]:
    variants = sorted(measurement.values) if measurement else []
    return {
        name: tuple(compare_cases(cases, gold.get(variant, {}), measurement.values[variant] if measurement else {}))
        for name, variant in zip(names, variants, strict=False)
    }


def _pass_all(compared: Mapping[str, Sequence[ComparedValue]], names: Sequence[str]) -> bool:
    return bool(names) and all(name in compared and passes(compared[name]) for name in names)


def _choose_outcome(
    task: Task,
    ending: str,
    extraction: Extraction | None,
    base: Measurement | None,
    secret: Measurement | None,
    fault: str,
    has_secrets: bool,
) -> Outcome | None:
    """Return the first outcome that holds of those that come before any comparison, or None."""
    if fault or extraction is None:
        return "fault"
    if ending != "submitted":
        return "unfinished"
    if any(measurement and measurement.tampered for measurement in (base, secret)):
        return "tampered"
    if is_refused(task, extraction):
        return "refused"
    if extraction.list_with_status("hidden", "missing"):
        return "hidden_left"
    if not extraction.is_complete or (base is not None and any(base.errors.values())):
        return "crashed"
    # The patch can be run, but was not: a stage is missing.
    return "fault" if base is None or (has_secrets and secret is None) else None


def is_refused(task: Task, extraction: Extraction) -> bool:
    """Return whether a patch is not run: it is too large, or the task refuses what the screen found."""
    return bool(extraction.list_with_status("too large") or (task.screen == "refuse" and extraction.findings))


def _compare_outcome(paper_pass: bool, code_is_right: bool) -> Outcome:
    if code_is_right:
        return "solved" if paper_pass else "unreported"
    return "reported_only" if paper_pass else "wrong"


def _list_findings(
    task: Task,
    extraction: Extraction | None,
    base: Measurement | None,
    secret: Measurement | None,
    gold: Mapping[int, TaskValues],
) -> list[GradeFinding]:
    findings = []
    if extraction:
        unfilled = extraction.list_with_status("hidden", "missing", "unreadable", "too large")
        findings += [GradeFinding("not filled in", text) for text in unfilled]
        findings += [GradeFinding("screen", finding.describe()) for finding in extraction.findings]
        numbers = find_gold_numbers(task, extraction, gold.get(BASE_VARIANT, {}))
        findings += [GradeFinding("gold number in code", name) for name in numbers]
    for measurement, kind in ((base, "error"), (secret, "error on secret data")):
        if measurement:
            findings += [GradeFinding(kind, text) for text in measurement.describe_errors()]
            findings += [GradeFinding("tampered", text) for text in measurement.tampered]
            if measurement.killed:
                findings.append(GradeFinding(kind, f"the sandbox was stopped: {measurement.killed}"))
    if not task.has_variants:
        findings.append(
            GradeFinding("cannot be tested", "the task has only its public data, so the code is not run on others")
        )
    return findings


def describe_patch(extraction: Extraction | None) -> dict[str, Any]:
    """Return the bodies and helpers of a patch in normal form: without comments and layout, as raters see them."""
    if extraction is None:
        return {}
    bodies = {name: entry.body for name, entry in extraction.functions.items() if entry.status == "filled"}
    return {"bodies": bodies, "helpers": {path: list(texts) for path, texts in extraction.helpers.items()}}
