"""Every number of the paper beside ours: one list for the page and for paper.json."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from django.db.models import QuerySet

from ratings.analyses import store
from ratings.analyses.tables import records
from ratings.benchmarks import store as benchmark_store
from ratings.declared_models import DeclaredModel, find_agent_models, find_declared_models
from ratings.models import Analysis, Benchmark, Study
from ratings.paper.plan import Names
from ratings.paper_values import PaperValue, load_paper_values
from ratings.stats.estimates import CONSENSUS, MAJORITY

NOT_MADE = "not made yet (run `make paper`), or in a study that you have no role in"
NOT_PRINTED = "the paper does not print it"
Json = dict[str, Any]


class Cell(NamedTuple):
    """One number: the paper's and ours. `reason` says why the paper's, ours or our interval is missing; else it is ""."""

    cell: str
    paper: float | None
    ours: float | None
    low: float | None
    high: float | None
    n: int | None
    reason: str


class Line(NamedTuple):
    """A cell with what people read: what it is of, where the paper prints it, and the unit of n."""

    cell: Cell
    name: str
    where: str
    unit: str
    study: str
    quantity: str

    @property
    def shown_paper(self) -> str:
        return self._show(self.cell.paper)

    @property
    def shown_ours(self) -> str:
        return self._show(self.cell.ours)

    @property
    def shown_interval(self) -> str:
        if self.cell.low is None or self.cell.high is None:
            return "none"
        return f"{self._show(self.cell.low)} to {self._show(self.cell.high)}"

    @property
    def shown_n(self) -> str:
        return "none" if self.cell.n is None else f"{self.cell.n:,} {self.unit}"

    def _show(self, value: float | None) -> str:
        if value is None:
            return "none"
        digits = ".2f" if self.quantity == "mean_confidence" else ".3f" if self.quantity in _NUMBERS else ".1%"
        text = format(value, digits)
        return text.replace("-", "\N{MINUS SIGN}")


class Own(NamedTuple):
    """A number of ours as a table has it."""

    value: float | None
    low: float | None
    high: float | None
    n: int | None
    unit: str
    reason: str = ""


class Parts(NamedTuple):
    """What a replication has come to: the analyses of its studies and of its benchmark, None for what is not made."""

    names: Names
    transitions: Analysis | None
    evidence: Analysis | None
    benchmark: Analysis | None
    declared: Mapping[str, DeclaredModel]
    agents: Mapping[str, str]  # cast -> its agent's model

    @property
    def is_empty(self) -> bool:
        return self.transitions is None and self.evidence is None and self.benchmark is None


def find_parts(names: Names, among: QuerySet[Study] | None = None) -> Parts:
    """Return what exists of a replication; of its studies only those `among` what somebody may read. Computes nothing."""
    every = Study.objects.all() if among is None else among
    studies = {row.slug: row for row in every.filter(slug__in=[names.transitions, names.evidence])}
    transitions, evidence = (studies.get(slug) for slug in (names.transitions, names.evidence))
    benchmark = Benchmark.objects.filter(name=names.benchmark).first()
    return Parts(
        names,
        store.find_full(transitions) if transitions else None,
        store.find_full(evidence) if evidence else None,
        Analysis.objects.filter(key=benchmark_store.key_of(benchmark)).first() if benchmark else None,
        find_declared_models(transitions) if transitions and transitions.is_unblinded else {},
        find_agent_models(benchmark) if benchmark else {},
    )


def build_lines(parts: Parts) -> list[Line]:
    """Return every number of the paper beside ours, in the order of the paper's values."""
    return [line for entry in load_paper_values() for line in _lines(entry, parts)]


def write_json(lines: Iterable[Line], path: Path) -> None:
    """Write the cells as a list of objects."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([line.cell._asdict() for line in lines], indent=1) + "\n", encoding="utf-8")


def summarise(lines: Iterable[Line]) -> str:
    """Return the last line of `make paper`: how many cells there are, and for how many ours is missing."""
    every = [line.cell for line in lines]
    missing = sum(cell.ours is None for cell in every)
    return f"paper: {len(every)} cells, {missing} without a number, each with its reason"


def _lines(entry: PaperValue, parts: Parts) -> Iterator[Line]:
    """Yield the cells of one entry: one, or one for each level of confidence or pair of classifiers."""
    match entry.quantity:
        case "confidence_histogram":
            yield from _histogram(entry, parts)
        case "model_agreement" | "conditional_agreement":
            yield from _matrix(entry, parts)
        case _:
            yield _line(entry, entry.key, _name(entry), entry.value, entry.reason or "", _find(entry, parts))


def _line(entry: PaperValue, key: str, name: str, paper: float | None, why: str, own: Own) -> Line:
    reasons = []
    if paper is None:
        reasons.append(f"paper: {why or NOT_PRINTED}")
    if own.value is None:
        reasons.append(f"ours: {own.reason or 'not computed'}")
    elif own.low is None:
        reasons.append(f"no interval of ours: {own.reason or 'none is computed for it'}")
    cell = Cell(key, paper, own.value, own.low, own.high, own.n, "; ".join(reasons))
    where = "not in the paper" if entry.where == "nowhere" else entry.where
    return Line(cell, name, where, own.unit, entry.study, entry.quantity)


_NUMBERS = (
    "mean_confidence", "avg_pairwise_kappa", "human_model_kappa", "auc_confidence_correct", "dprime", "mrmc_mean_auc",
)  # fmt: skip
_NAMES = {
    "plausibility_rate": "Called plausible",
    "mean_confidence": "Mean confidence",
    "confidence_histogram": "Share of ratings",
    "avg_pairwise_kappa": "Cohen's kappa of raters, mean over pairs",
    "avg_pairwise_agreement": "Agreement of raters, mean over pairs",
    "auc_confidence_correct": "AUC of confidence for a correct verdict",
    "dprime": "d', mean over raters",
    "specificity": "Specificity",
    "sensitivity": "Sensitivity",
    "mrmc_mean_auc": "AUC of the signed rating, mean over raters",
    "human_model_kappa": "Cohen's kappa with raters",
    "human_model_agreement": "Agreement with raters",
    "model_agreement": "Agreement of classifiers",
    "conditional_agreement": "Also sufficient for the second, given sufficient for the first",
    "sufficient_rate": "Called sufficient",
    "majority_sufficient_rate": "Called sufficient by most classifiers",
    "consensus_sufficient_rate": "Called sufficient by all classifiers",
    "pass_at_k": "pass@{k}",
}
_ERRORS = {"none": "unperturbed", "obvious": "Error Type 1 (obvious)", "subtle": "Error Type 2 (subtle)"}


def _name(entry: PaperValue) -> str:
    parts = [_NAMES[entry.quantity].format(k=entry.k), entry.model, _ERRORS.get(entry.error or "")]
    return ", ".join(filter(None, parts))


def _find(entry: PaperValue, parts: Parts) -> Own:
    """Return our number for an entry, or why there is none."""
    if entry.study == "benchmark":
        return _pass_at_k(entry, parts)
    if entry.quantity in ("sufficient_rate", "majority_sufficient_rate", "consensus_sufficient_rate"):
        return _fraction(entry, parts)
    analysis = parts.transitions if entry.study == "transition_plausibility" else parts.evidence
    if analysis is None:
        return Own(None, None, None, None, "", NOT_MADE)
    if entry.quantity == "plausibility_rate":
        return _rate(entry, parts, analysis.document)
    if entry.quantity.startswith("human_model_"):
        return _human_model(entry, analysis.document)
    return _result(entry.quantity, analysis.document)


# Which result of a statistic stands beside the paper's: the args that tell it from others of its name.
_ARGS: Mapping[str, Json] = {
    "avg_pairwise_kappa": {"min_overlap": 20},
    "avg_pairwise_agreement": {"min_overlap": 20},
    "dprime": {"mean_over": "raters"},
}


def _result(stat: str, document: Json) -> Own:
    wanted = _ARGS.get(stat, {})
    row = next((row for row in document["results"] if row["stat"] == stat and row["args"] == wanted), None)
    if row is None:
        return Own(None, None, None, None, "", "this study has no such number")
    return Own(row["value"], row["low"], row["high"], row["n"].get("ratings"), "ratings", row["reason"])


def _rate(entry: PaperValue, parts: Parts, document: Json) -> Own:
    for row in records(document["tables"]["rates"]):
        declared = parts.declared.get(row["source"])
        if declared == DeclaredModel(entry.model or "", entry.role or "") and row["error"] == entry.error:
            return Own(row["rate"], row["low"], row["high"], row["n"], "ratings", row["reason"])
    return Own(None, None, None, None, "", f"no items by {entry.model} as {(entry.role or '').replace('_', ' ')}")


def _human_model(entry: PaperValue, document: Json) -> Own:
    stat = entry.quantity.removeprefix("human_model_")
    for row in records(document["tables"]["human_model"]):
        if (row["who"], row["kind"]) == (entry.model, "classifier"):
            return Own(row[stat], row[f"{stat}_low"], row[f"{stat}_high"], row["items"], "records", row["reason"])
    return Own(None, None, None, None, "", f"{entry.model} judged no record that two raters judged")


def _fraction(entry: PaperValue, parts: Parts) -> Own:
    if parts.benchmark is None:
        return Own(None, None, None, None, "", NOT_MADE)
    who = {
        "majority_sufficient_rate": MAJORITY,
        "consensus_sufficient_rate": CONSENSUS,
    }.get(entry.quantity, entry.model)
    for row in records(parts.benchmark.document["tables"]["fractions"]):
        if row["who"] == who:
            return Own(row["share"], row["low"], row["high"], row["n"], "records")
    return Own(None, None, None, None, "", f"no verdicts of {who}")


def _pass_at_k(entry: PaperValue, parts: Parts) -> Own:
    if parts.benchmark is None:
        return Own(None, None, None, None, "", NOT_MADE)
    for row in records(parts.benchmark.document["tables"]["pass_at_k"]):
        if parts.agents.get(row["agent"]) == entry.model and row["k"] == entry.k:
            return Own(row["value"], row["low"], row["high"], row["attempts"], "attempts", row["reason"])
    return Own(None, None, None, None, "", f"no attempts of {entry.model}")


def _histogram(entry: PaperValue, parts: Parts) -> Iterator[Line]:
    """Yield the share of a source's ratings with each verdict and confidence (Fig. 3, centre)."""
    rows: list[Json] = []
    if parts.transitions is not None:
        sources = {
            row["source"]
            for row in records(parts.transitions.document["tables"]["rates"])
            if parts.declared.get(row["source"]) == DeclaredModel(entry.model or "", entry.role or "")
            and row["error"] == entry.error
        }
        rows = [row for row in records(parts.transitions.document["tables"]["confidence"]) if row["source"] in sources]
    why = (
        NOT_MADE
        if parts.transitions is None
        else f"no items by {entry.model} as {(entry.role or '').replace('_', ' ')}"
    )
    total = sum(row["n"] for row in rows)
    for verdict, word in ((1, "plausible"), (0, "implausible")):
        for level in range(1, 6):
            own = Own(None, None, None, None, "", why)
            if total:
                n = sum(row["n"] for row in rows if (row["verdict"], row["confidence"]) == (verdict, level))
                own = Own(
                    n / total, None, None, total, "ratings", "the shares of a histogram have none; the rates have"
                )
            name = f"{_name(entry)}: {word}, confidence {level}"
            yield _line(entry, f"{entry.key}-{word}-{level}", name, None, entry.reason or "", own)


def _matrix(entry: PaperValue, parts: Parts) -> Iterator[Line]:
    """Yield the ends of the printed range, then each pair of classifiers, of which the paper prints no number."""
    rows: list[Json] = []
    if parts.benchmark is not None:
        table = "agreement_matrix" if entry.quantity == "model_agreement" else "conditional_matrix"
        every = [row for row in records(parts.benchmark.document["tables"][table]) if row["row"] != row["col"]]
        rows = [row for row in every if entry.model in (None, row["row"])]
        if entry.quantity == "model_agreement":  # symmetric: each pair once
            rows = [row for row in rows if row["row"] < row["col"]]
    values = [row["value"] for row in rows if row["value"] is not None]
    for end, name, choose in ((0, "lowest", min), (1, "highest", max)):
        own = Own(
            None, None, None, None, "", NOT_MADE if parts.benchmark is None else "no classifier judged with another"
        )
        if values:
            own = Own(choose(values), None, None, len(values), "pairs", "an extreme of several shares has none")
        paper = entry.range[end] if entry.range else None
        yield _line(entry, f"{entry.key}-{name}", f"{_name(entry)}: {name}", paper, entry.reason or "", own)
    for row in rows:
        own = Own(row["value"], None, None, row["base"], "records", "none is computed for cells of a matrix")
        if row["value"] is None:
            own = own._replace(reason="there is no record that the share could be of")
        name = f"{_name(entry)}: {row['row']} and {row['col']}"
        yield _line(entry, f"{entry.key}-{row['row']}-{row['col']}", name, None, "printed only as a figure", own)
