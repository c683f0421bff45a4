"""The grade of an episode: its outcome, and everything that it follows from."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple, get_args

from simulation.replication.comparing import (
    ComparedValue,
    GoldValueError,
    Report,
    compare_cases,
    compare_reported,
    passes,
    read_report,
    read_reported_values,
)
from simulation.replication.grading.extracting import Extraction
from simulation.replication.grading.literals import find_gold_numbers
from simulation.replication.grading.measuring import Measurement
from simulation.replication.grading.probing import Probes
from simulation.replication.grading.work import GradingWork
from simulation.replication.values import BASE_VARIANT, Task, TaskValues

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

    @property
    def is_secret(self) -> bool:
        """Return whether the text may have values of secret data, which agents and raters must not see."""
        return self.kind in SECRET_KINDS


FINDING_KINDS = (
    "not filled in",
    "screen",
    "gold number in code",
    "error",
    "error on secret data",
    "tampered",
    "tampered on secret data",
    "report",
    "cannot be tested",
    "fault",
)
# A fault has the message of a generator or of reference code, which may have failed on secret data.
SECRET_KINDS = ("error on secret data", "tampered on secret data", "fault")


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


@dataclass(frozen=True)
class Stages:
    """The results of the stages that have run."""

    extraction: Extraction | None = None
    base: Measurement | None = None
    secret: Measurement | None = None
    probes: Probes | None = None

    def to_json(self) -> dict[str, Any]:
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: None if part is None else part.to_json() for name, part in parts.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Stages":
        extraction, base, secret, probes = (data.get(field.name) for field in fields(cls))
        return cls(
            None if extraction is None else Extraction.from_json(extraction),
            None if base is None else Measurement.from_json(base),
            None if secret is None else Measurement.from_json(secret),
            None if probes is None else Probes.from_json(probes),
        )


def conclude(work: GradingWork, stages: Stages, fault: str = "") -> Grade:
    """Return the grade that follows from the results of the stages. Runs nothing. `fault` is why the stages could not be run, or "".

    The outcome is the first of fault, unfinished, tampered, refused, hidden_left and crashed that applies. Otherwise the reported numbers
    and the reruns decide. Code of a task without secret data cannot be tested on such data, so no episode of it is solved.
    """
    if work.ending != "submitted" or work.reported is None:
        report = Report({}, ())
    else:
        report = read_report(work.reported) if isinstance(work.reported, str) else read_reported_values(work.reported)
    base_gold = work.gold.get(BASE_VARIANT, {})
    findings = _list_findings(work.task, stages, base_gold)
    findings += [GradeFinding("report", problem) for problem in report.problems]
    compared: dict[str, tuple[ComparedValue, ...]] = {}
    fault = fault or work.find_missing_gold()
    try:
        if not work.relevant_cases:
            raise GoldValueError(f"{work.task.slug} has no test case among {', '.join(work.cases or ()) or '[]'}")
        compared["reported"] = tuple(compare_reported(work.relevant_cases, base_gold, report.values))
        if measured_rows := list(_compare_measured(work, stages.base)):
            compared["measured"] = measured_rows[0]  # the base variant is the only one
        secret_rows = enumerate(_compare_measured(work, stages.secret), 1)
        compared |= {f"secret {position}": rows for position, rows in secret_rows}
    except GoldValueError as error:
        fault = fault or str(error)
    if fault:
        findings.insert(0, GradeFinding("fault", fault))
    paper_pass = "reported" in compared and passes(compared["reported"])
    measured, robust = None, None
    if stages.base:
        measured = "measured" in compared and passes(compared["measured"])
    if stages.secret and work.task.has_variants:
        secrets = [rows for source, rows in compared.items() if source.startswith("secret")]
        robust = bool(secrets) and all(map(passes, secrets))
    return Grade(
        _choose_outcome(work, stages, fault, paper_pass, code_is_right=bool(measured and robust)),
        paper_pass,
        measured,
        robust,
        tuple(findings),
        stages.extraction.outside if stages.extraction else (),
        compared,
        describe_patch(stages.extraction),
        stages.probes,
    )


def _compare_measured(work: GradingWork, measurement: Measurement | None) -> Iterator[tuple[ComparedValue, ...]]:
    """Yield the rows of each variant that was run. Raises GoldValueError."""
    for variant, values in sorted(measurement.values.items()) if measurement else ():
        yield tuple(compare_cases(work.relevant_cases, work.gold.get(variant, {}), values))


def _choose_outcome(work: GradingWork, stages: Stages, fault: str, paper_pass: bool, code_is_right: bool) -> Outcome:
    extraction, base, secret = stages.extraction, stages.base, stages.secret
    if fault or extraction is None:
        return "fault"
    if work.ending != "submitted":
        return "unfinished"
    if any(measurement and measurement.tampered for measurement in (base, secret)):
        return "tampered"
    if is_refused(work.task, extraction):
        return "refused"
    if extraction.list_with_status("hidden", "missing"):
        return "hidden_left"
    if not extraction.is_complete or (base is not None and any(base.errors.values())):
        return "crashed"
    if base is None or (work.secret_variants and secret is None):
        return "fault"  # the patch can be run, but a stage is missing
    if code_is_right:
        return "solved" if paper_pass else "unreported"
    return "reported_only" if paper_pass else "wrong"


def is_refused(task: Task, extraction: Extraction) -> bool:
    """Return whether a patch is not run: it is too large, or the task refuses what the screen found."""
    return bool(extraction.list_with_status("too large") or (task.screen == "refuse" and extraction.findings))


def _list_findings(task: Task, stages: Stages, base_gold: TaskValues) -> list[GradeFinding]:
    findings, extraction = [], stages.extraction
    if extraction:
        unfilled = extraction.list_with_status("hidden", "missing", "unreadable", "too large")
        findings += [GradeFinding("not filled in", text) for text in unfilled]
        findings += [GradeFinding("screen", finding.describe()) for finding in extraction.findings]
        numbers = find_gold_numbers(task, extraction, base_gold)
        findings += [GradeFinding("gold number in code", name) for name in numbers]
    for measurement, place in ((stages.base, ""), (stages.secret, " on secret data")):
        if measurement:
            findings += [GradeFinding(f"error{place}", text) for text in measurement.describe_errors()]
            findings += [GradeFinding(f"tampered{place}", text) for text in measurement.tampered]
            if measurement.killed:
                findings.append(GradeFinding(f"error{place}", f"the sandbox was stopped: {measurement.killed}"))
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
