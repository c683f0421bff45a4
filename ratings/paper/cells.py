"""Every number of the paper beside ours: one list for the page and for paper.json."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from django.db.models import QuerySet

from ratings.models import Analysis, Benchmark, Study
from ratings.paper.plan import Names
from ratings.results.analyses import store
from ratings.results.analyses.tables import records
from ratings.results.benchmarks import store as benchmark_store
from ratings.results.declared_models import DeclaredModel, find_agent_models, find_declared_models, find_successors
from ratings.results.paper_values import ENSEMBLES, PaperValue, load_paper_values
from ratings.stats.estimates import CONSENSUS, MAJORITY

NOT_MADE = "not made yet (run `make paper`), or in a study that you have no role in"
NOT_COMPUTED = (
    "the study is not unblinded, or its results are not computed yet: open its page or run `make paper` again"
)
NO_BENCHMARK = "the benchmark is not made yet (run `make paper`)"
BENCHMARK_NOT_COMPUTED = "the benchmark is not computed yet: open its page or run `make paper` again"
STALE = "ours is of an earlier state of the benchmark"
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
    """A cell with what people read: what it is of, where the paper prints it, and the unit of n.

    `basis`: standard deviation, n and interval of the paper's number. `remark`: what keeps ours from comparing with it.
    """

    cell: Cell
    name: str
    where: str
    unit: str
    study: str
    quantity: str
    basis: str = ""
    remark: str = ""

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
    """What a replication has come to: the analyses of its studies and of its benchmark, None for what is not made.

    `why`: of each part without an analysis, why. `stale`: what changed since the benchmark was computed, "" if nothing.
    """

    names: Names
    transitions: Analysis | None
    evidence: Analysis | None
    benchmark: Analysis | None
    declared: Mapping[str, DeclaredModel]
    agents: Mapping[str, str]  # cast -> its agent's model
    successors: Mapping[str, tuple[str, ...]]  # model of the paper -> models that casts declare to be its successors
    why: Mapping[str, str]
    stale: str
    missing: Mapping[str, int]  # classifier -> verdicts of the panel that it has not given

    @property
    def is_empty(self) -> bool:
        return self.transitions is None and self.evidence is None and self.benchmark is None

    @property
    def n_missing(self) -> int:
        return sum(self.missing.values())

    def say_raters(self, study: str) -> str:
        """Return that ours are of simulated raters, where they are; "" for numbers that are of no raters."""
        analysis = {"transition_plausibility": self.transitions, "evidence_sufficiency": self.evidence}.get(study)
        who = {row["who"] for row in records(analysis.document["tables"]["raters"])} if analysis else set()
        if "simulated" not in who:
            return ""
        return "ours are of simulated raters" if who == {"simulated"} else "some of our raters are simulated"

    def has_played(self, role: str | None, model: str) -> bool:
        """Whether numbers of this model in this role can be ours."""
        if role == "agent":
            return model in self.agents.values()
        if role == "evidence_classifier":
            return model in self.find_classifiers()
        return DeclaredModel(model, role or "") in self.declared.values()

    def find_classifiers(self) -> set[str]:
        """Return the classifiers of which there are verdicts."""
        tables = [
            analysis.document["tables"][name]
            for analysis, name in ((self.benchmark, "fractions"), (self.evidence, "human_model"))
            if analysis
        ]
        return {row["who"] for table in tables for row in records(table) if row["kind"] == "classifier"}


def find_parts(names: Names, among: QuerySet[Study] | None = None) -> Parts:
    """Return what exists of a replication; of its studies only those `among` what somebody may read. Computes nothing."""
    every = Study.objects.all() if among is None else among
    studies = {row.slug: row for row in every.filter(slug__in=[names.transitions, names.evidence])}
    transitions, evidence = (studies.get(slug) for slug in (names.transitions, names.evidence))
    benchmark = Benchmark.objects.filter(name=names.benchmark).first()
    newest = benchmark_store.find_newest(benchmark) if benchmark else None
    shown = transitions if transitions and transitions.is_unblinded else None
    return Parts(
        names,
        store.find_full(transitions) if transitions else None,
        store.find_full(evidence) if evidence else None,
        newest,
        find_declared_models(shown) if shown else {},
        find_agent_models(benchmark) if benchmark else {},
        find_successors(shown, benchmark),
        {
            "transition_plausibility": NOT_COMPUTED if transitions else NOT_MADE,
            "evidence_sufficiency": NOT_COMPUTED if evidence else NOT_MADE,
            "benchmark": BENCHMARK_NOT_COMPUTED if benchmark else NO_BENCHMARK,
        },
        benchmark_store.explain_stale(benchmark, newest) if benchmark and newest else "",
        benchmark_store.count_missing(benchmark) if benchmark else {},
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


class _Asked(NamedTuple):
    """An entry of the paper, and the model or models of ours that stand beside its own: the same ones, or successors."""

    entry: PaperValue
    model: str | None
    models: tuple[str, ...]
    key: str
    name: str

    @property
    def remark(self) -> str:
        same = self.model == self.entry.model and self.models == (self.entry.models or ())
        return "" if same else "ours is of a successor" if not self.models else "ours are of successors"


def _lines(entry: PaperValue, parts: Parts) -> Iterator[Line]:
    """Yield the cells of one entry: one, or one for each level of confidence, pair of classifiers or successor."""
    for asked in _ask(entry, parts):
        match entry.quantity:
            case "confidence_histogram":
                yield from _histogram(asked, parts)
            case "model_agreement" | "conditional_agreement":
                yield from _matrix(asked, parts)
            case _:
                own = _find(asked, parts)
                yield _line(asked, parts, asked.key, asked.name, entry.value, entry.reason or "", own)


def _ask(entry: PaperValue, parts: Parts) -> list[_Asked]:
    """Return what of ours stands beside an entry: its own model; successors of it that were played instead or as well."""
    same = _Asked(entry, entry.model, entry.models or (), entry.key, _name(entry))
    if entry.models:
        swap = {model: _swap(entry, model, parts) for model in entry.models}
        models = tuple(swap[model] for model in entry.models)
        if models == entry.models:
            return [same]
        model = swap[entry.model] if entry.model else None
        name = _name(entry, f"{entry.model} → {model}, successors" if entry.model else "successors")
        return [_Asked(entry, model, models, f"{entry.key}-successors", name)]
    if not entry.model:
        return [same]
    found = [
        _Asked(entry, model, (), f"{entry.key}-successor-{model}", _name(entry, f"{entry.model} → {model}, successor"))
        for model in parts.successors.get(entry.model, ())
        if parts.has_played(entry.role, model)
    ]
    return found if found and not parts.has_played(entry.role, entry.model) else [same, *found]


def _swap(entry: PaperValue, model: str, parts: Parts) -> str:
    """Return the model itself, or its successor where only that was played."""
    if parts.has_played(entry.role, model):
        return model
    return next((one for one in parts.successors.get(model, ()) if parts.has_played(entry.role, one)), model)


def _line(asked: _Asked, parts: Parts, key: str, name: str, paper: float | None, why: str, own: Own) -> Line:
    entry, reasons = asked.entry, []
    of_benchmark = _source(entry) == "benchmark"
    if paper is None:
        reasons.append(f"paper: {why or NOT_PRINTED}")
    if own.value is None:
        reasons.append(f"ours: {own.reason or 'not computed'}")
    elif own.low is None:
        reasons.append(f"no interval of ours: {own.reason or 'none is computed for it'}")
    if own.value is not None and of_benchmark and parts.stale:
        reasons.append(STALE)
    cell = Cell(key, paper, own.value, own.low, own.high, own.n, "; ".join(reasons))
    where = "not in the paper" if entry.where == "nowhere" else entry.where
    raters = "" if of_benchmark or own.value is None else parts.say_raters(entry.study)
    remark = "; ".join(filter(None, (asked.remark, raters)))
    basis = entry.format_spread() if paper is not None else ""
    return Line(cell, name, where, own.unit, entry.study, entry.quantity, basis, remark)


def _source(entry: PaperValue) -> str:
    """Return which part of the replication has our number: a kind of study, or the benchmark."""
    return "benchmark" if entry.quantity in _OF_BENCHMARK else entry.study


_OF_BENCHMARK = (
    "pass_at_k", "sufficient_rate", "majority_sufficient_rate", "consensus_sufficient_rate", "model_agreement",
    "conditional_agreement",
)  # fmt: skip
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


def _name(entry: PaperValue, model: str | None = None) -> str:
    parts = [_NAMES[entry.quantity].format(k=entry.k), model or entry.model, _ERRORS.get(entry.error or "")]
    return ", ".join(filter(None, parts))


def _none(reason: str) -> Own:
    return Own(None, None, None, None, "", reason)


def _find(asked: _Asked, parts: Parts) -> Own:
    """Return our number for an entry, or why there is none."""
    entry = asked.entry
    if entry.study == "benchmark":
        return _pass_at_k(asked, parts)
    if entry.quantity in ("sufficient_rate", "majority_sufficient_rate", "consensus_sufficient_rate"):
        return _fraction(asked, parts)
    analysis = parts.transitions if entry.study == "transition_plausibility" else parts.evidence
    if analysis is None:
        return _none(parts.why[entry.study])
    if entry.quantity == "plausibility_rate":
        return _rate(asked, parts, analysis.document)
    if entry.quantity.startswith("human_model_"):
        return _human_model(asked, parts, analysis.document)
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
        return _none("this study has no such number")
    return Own(row["value"], row["low"], row["high"], row["n"].get("ratings"), "ratings", row["reason"])


def _rate(asked: _Asked, parts: Parts, document: Json) -> Own:
    for row in records(document["tables"]["rates"]):
        if _is_of(asked, parts, row):
            return Own(row["rate"], row["low"], row["high"], row["n"], "ratings", row["reason"])
    return _none(_no_items(asked, parts))


def _is_of(asked: _Asked, parts: Parts, row: Json) -> bool:
    """Whether a row of rates is of the model asked for, in the role and with the error of the entry."""
    declared = DeclaredModel(asked.model or "", asked.entry.role or "")
    return parts.declared.get(row["source"]) == declared and row["error"] == asked.entry.error


def _no_items(asked: _Asked, parts: Parts) -> str:
    said = f"no items by {asked.model} as {(asked.entry.role or '').replace('_', ' ')}"
    return said + _no_successor(asked.model, parts)


def _no_successor(model: str | None, parts: Parts) -> str:
    """Return what is added to why a model has no number of ours, where successors were played."""
    return (
        f"; no successor of {model} was played either"
        if parts.successors and model not in _every(parts.successors)
        else ""
    )


def _every(successors: Mapping[str, Collection[str]]) -> set[str]:
    return {name for names in successors.values() for name in names}


def _human_model(asked: _Asked, parts: Parts, document: Json) -> Own:
    stat = asked.entry.quantity.removeprefix("human_model_")
    for row in records(document["tables"]["human_model"]):
        if (row["who"], row["kind"]) == (asked.model, "classifier"):
            return Own(row[stat], row[f"{stat}_low"], row[f"{stat}_high"], row["items"], "records", row["reason"])
    return _none(f"{asked.model} judged no record that two raters judged{_no_successor(asked.model, parts)}")


def _fraction(asked: _Asked, parts: Parts) -> Own:
    if parts.benchmark is None:
        return _none(parts.why["benchmark"])
    who = {
        "majority_sufficient_rate": MAJORITY,
        "consensus_sufficient_rate": CONSENSUS,
    }.get(asked.entry.quantity)
    for row in records(parts.benchmark.document["tables"]["fractions"]):
        if who is None:
            found = (row["who"], row["kind"]) == (asked.model, "classifier")
        else:
            of = set(row.get("models", "").split(", "))
            found = row["who"] in (who, ENSEMBLES[who]) and of == set(asked.models)
        if found:
            return Own(row["share"], row["low"], row["high"], row["n"], "records")
    if who is None:
        return _none(f"no verdicts of {asked.model}{_no_successor(asked.model, parts)}")
    return _none(_say_silent(asked, parts) or "computed by an earlier version; open the benchmark's page")


def _say_silent(asked: _Asked, parts: Parts) -> str:
    """Return which of the classifiers that a number is over gave no verdict, "" where all did."""
    rows = records(parts.benchmark.document["tables"]["fractions"]) if parts.benchmark else []
    judged = {row["who"] for row in rows if row["kind"] == "classifier"}
    silent = [model for model in asked.models if model not in judged]
    if not silent:
        return ""
    return f"the paper's is over {len(asked.models)} classifiers, and there are no verdicts of {', '.join(silent)}"


def _pass_at_k(asked: _Asked, parts: Parts) -> Own:
    if parts.benchmark is None:
        return _none(parts.why["benchmark"])
    for row in records(parts.benchmark.document["tables"]["pass_at_k"]):
        if parts.agents.get(row["agent"]) == asked.model and row["k"] == asked.entry.k:
            return Own(row["value"], row["low"], row["high"], row["attempts"], "attempts", row["reason"])
    return _none(f"no attempts of {asked.model}{_no_successor(asked.model, parts)}")


def _histogram(asked: _Asked, parts: Parts) -> Iterator[Line]:
    """Yield the share of a source's ratings with each verdict and confidence (Fig. 3, centre)."""
    rows: list[Json] = []
    if parts.transitions is not None:
        tables = parts.transitions.document["tables"]
        sources = {row["source"] for row in records(tables["rates"]) if _is_of(asked, parts, row)}
        rows = [row for row in records(tables["confidence"]) if row["source"] in sources]
    why = parts.why[asked.entry.study] if parts.transitions is None else _no_items(asked, parts)
    total = sum(row["n"] for row in rows)
    for verdict, word in ((1, "plausible"), (0, "implausible")):
        for level in range(1, 6):
            own = _none(why)
            if total:
                n = sum(row["n"] for row in rows if (row["verdict"], row["confidence"]) == (verdict, level))
                own = Own(
                    n / total, None, None, total, "ratings", "the shares of a histogram have none; the rates have"
                )
            name = f"{asked.name}: {word}, confidence {level}"
            yield _line(asked, parts, f"{asked.key}-{word}-{level}", name, None, asked.entry.reason or "", own)


def _matrix(asked: _Asked, parts: Parts) -> Iterator[Line]:
    """Yield the ends of the printed range, then each pair of the same classifiers, of which the paper prints no number."""
    entry, cells = asked.entry, _find_cells(asked, parts)
    why = parts.why["benchmark"] if parts.benchmark is None else _say_silent(asked, parts)
    values = [own.value for own in cells.values() if own.value is not None]
    if not why and len(values) < len(cells):
        why = "a pair has no number"
    for end, name, choose in ((0, "lowest", min), (1, "highest", max)):
        own = _none(why)
        if not why:
            own = Own(choose(values), None, None, len(values), "pairs", "an extreme of several shares has none")
        paper = entry.range[end] if entry.range else None
        yield _line(
            asked,
            parts,
            f"{asked.key}-{name}",
            f"{asked.name}: {name}",
            paper,
            "" if paper else entry.reason or "",
            own,
        )
    for (row, col), own in cells.items():
        name, key = f"{asked.name}: {row} and {col}", f"{asked.key}-{row}-{col}"
        yield _line(asked, parts, key, name, None, "printed only as a figure", own)


def _find_cells(asked: _Asked, parts: Parts) -> dict[tuple[str, str], Own]:
    """Return our number, or the reason why there is none, for each pair of the entry's classifiers."""
    others = sorted(asked.models)
    if asked.entry.quantity == "model_agreement":  # symmetric: each pair once
        pairs = list(combinations(others, 2))
    else:
        pairs = [(row, col) for row in others for col in others if row != col and asked.model in (None, row)]
    if parts.benchmark is None:
        return dict.fromkeys(pairs, _none(parts.why["benchmark"]))
    table = "agreement_matrix" if asked.entry.quantity == "model_agreement" else "conditional_matrix"
    rows = {(row["row"], row["col"]): row for row in records(parts.benchmark.document["tables"][table])}
    judged = {row["who"] for row in records(parts.benchmark.document["tables"]["fractions"])}
    return {pair: _cell(pair, rows.get(pair), judged) for pair in pairs}


def _cell(pair: tuple[str, str], row: Json | None, judged: Collection[str]) -> Own:
    if row is None:
        return _none(f"no verdicts of {' and '.join(name for name in pair if name not in judged)}")
    if row["value"] is None:
        return _none("there is no record that the share could be of")
    return Own(row["value"], None, None, row["base"], "records", "none is computed for cells of a matrix")
