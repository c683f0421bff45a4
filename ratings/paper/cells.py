"""The numbers of the paper beside ours: one list for the page and for paper.json."""

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

NOT_MADE = "not created yet (run `make paper`), or in a study in which you have no role"
NOT_COMPUTED = (
    "the study is not unblinded, or its results are not computed yet: open its page, or run `make paper` again"
)
NO_BENCHMARK = "the benchmark does not exist yet (run `make paper`)"
BENCHMARK_NOT_COMPUTED = "the benchmark is not computed yet: open its page, or run `make paper` again"
STALE = "our number is from an earlier state of the benchmark"
NOT_PRINTED = "not printed in the paper"
Json = dict[str, Any]


class Cell(NamedTuple):
    """One number: the paper's and ours. `reason`: why the paper's number, ours or our interval is missing; otherwise ""."""

    cell: str
    paper: float | None
    ours: float | None
    low: float | None
    high: float | None
    n: int | None
    reason: str


class Line(NamedTuple):
    """A number with what people see beside it: its name, where the paper prints it, and the unit of n.

    `basis`: standard deviation, n and interval of the paper's number. `remark`: what limits the comparison.
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
    """One of our numbers, as a table has it."""

    value: float | None
    low: float | None
    high: float | None
    n: int | None
    unit: str
    reason: str = ""


class Parts(NamedTuple):
    """The results of a replication: the analyses of its studies and of its benchmark, None for what does not exist.

    `missing_reasons`: the reason for each part without an analysis. `stale`: what changed since the benchmark was computed, or "".
    """

    names: Names
    transitions: Analysis | None
    evidence: Analysis | None
    benchmark: Analysis | None
    declared: Mapping[str, DeclaredModel]
    agents: Mapping[str, str]  # cast -> its agent's model
    successors: Mapping[str, tuple[str, ...]]  # model of the paper -> models that casts declare as its successors
    why: Mapping[str, str]
    stale: str
    missing: Mapping[str, int]  # further classifier -> verdicts it has not given

    @property
    def is_empty(self) -> bool:
        return self.transitions is None and self.evidence is None and self.benchmark is None

    @property
    def n_missing(self) -> int:
        return sum(self.missing.values())

    def say_raters(self, study: str) -> str:
        """Return that our raters are simulated, if they are; "" for numbers without raters."""
        analysis = {"transition_plausibility": self.transitions, "evidence_sufficiency": self.evidence}.get(study)
        kinds = {row["who"] for row in records(analysis.document["tables"]["raters"])} if analysis else set()
        if "simulated" not in kinds:
            return ""
        return "our raters are simulated" if kinds == {"simulated"} else "some of our raters are simulated"

    def has_played(self, role: str | None, model: str) -> bool:
        """Return whether our numbers can be about this model in this role."""
        if role == "agent":
            return model in self.agents.values()
        if role == "evidence_classifier":
            return model in self.find_classifiers()
        return DeclaredModel(model, role or "") in self.declared.values()

    def find_classifiers(self) -> set[str]:
        """Return the classifiers that gave verdicts."""
        tables = [
            analysis.document["tables"][name]
            for analysis, name in ((self.benchmark, "fractions"), (self.evidence, "human_model"))
            if analysis
        ]
        return {row["who"] for table in tables for row in records(table) if row["kind"] == "classifier"}


def find_parts(names: Names, among: QuerySet[Study] | None = None) -> Parts:
    """Return what exists of a replication, of its studies only those in `among`. Computes nothing."""
    visible = Study.objects.all() if among is None else among
    studies = {row.slug: row for row in visible.filter(slug__in=[names.transitions, names.evidence])}
    transitions, evidence = (studies.get(slug) for slug in (names.transitions, names.evidence))
    benchmark = Benchmark.objects.filter(name=names.benchmark).first()
    newest = benchmark_store.find_newest(benchmark) if benchmark else None
    # Which models made the items is sealed until then.
    unblinded = transitions if transitions and transitions.is_unblinded else None
    return Parts(
        names,
        store.find_full(transitions) if transitions else None,
        store.find_full(evidence) if evidence else None,
        newest,
        find_declared_models(unblinded) if unblinded else {},
        find_agent_models(benchmark) if benchmark else {},
        find_successors(unblinded, benchmark),
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
    """Write the numbers as a list of objects."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([line.cell._asdict() for line in lines], indent=1) + "\n", encoding="utf-8")


def summarise(lines: Iterable[Line]) -> str:
    """Return the last line of `make paper`: how many numbers there are, and for how many ours is missing."""
    numbers = [line.cell for line in lines]
    missing = sum(cell.ours is None for cell in numbers)
    return f"paper: {len(numbers)} cells, {missing} without a number, each with its reason"


class _Asked(NamedTuple):
    """An entry of the paper, and the models of ours to compare it with: the same ones, or their successors."""

    entry: PaperValue
    model: str | None
    models: tuple[str, ...]
    key: str
    name: str

    @property
    def remark(self) -> str:
        is_same = self.model == self.entry.model and self.models == (self.entry.models or ())
        return "" if is_same else "our number is for a successor" if not self.models else "our number is for successors"


def _lines(entry: PaperValue, parts: Parts) -> Iterator[Line]:
    """Yield the rows of one entry: one, or one per level of confidence, pair of classifiers or successor."""
    for model_match in _ask(entry, parts):
        match entry.quantity:
            case "confidence_histogram":
                yield from _histogram(model_match, parts)
            case "model_agreement" | "conditional_agreement":
                yield from _matrix(model_match, parts)
            case _:
                our_number = _find(model_match, parts)
                yield _line(
                    model_match, parts, model_match.key, model_match.name, entry.value, entry.reason or "", our_number
                )


def _ask(entry: PaperValue, parts: Parts) -> list[_Asked]:
    """Return what of ours to compare with an entry: its own model, and successors that were played instead or as well."""
    own_model = _Asked(entry, entry.model, entry.models or (), entry.key, _name(entry))
    if entry.models:
        swap = {model: _swap(entry, model, parts) for model in entry.models}
        models = tuple(swap[model] for model in entry.models)
        # Nothing was replaced, so there is only the comparison with the same models.
        if models == entry.models:
            return [own_model]
        model = swap[entry.model] if entry.model else None
        name = _name(entry, f"{entry.model} → {model}, successors" if entry.model else "successors")
        return [_Asked(entry, model, models, f"{entry.key}-successors", name)]
    if not entry.model:
        return [own_model]
    successors = [
        _Asked(entry, model, (), f"{entry.key}-successor-{model}", _name(entry, f"{entry.model} → {model}, successor"))
        for model in parts.successors.get(entry.model, ())
        if parts.has_played(entry.role, model)
    ]
    return successors if successors and not parts.has_played(entry.role, entry.model) else [own_model, *successors]


def _swap(entry: PaperValue, model: str, parts: Parts) -> str:
    """Return the model itself, or its successor if only that was played."""
    if parts.has_played(entry.role, model):
        return model
    return next((name for name in parts.successors.get(model, ()) if parts.has_played(entry.role, name)), model)


def _line(asked: _Asked, parts: Parts, key: str, name: str, paper: float | None, why: str, own: Own) -> Line:
    entry, reasons = asked.entry, []
    is_benchmark = _source(entry) == "benchmark"
    if paper is None:
        reasons.append(f"paper: {why or NOT_PRINTED}")
    if own.value is None:
        reasons.append(f"ours: {own.reason or 'not computed'}")
    elif own.low is None:
        reasons.append(f"no interval for ours: {own.reason or 'none is computed for it'}")
    if own.value is not None and is_benchmark and parts.stale:
        reasons.append(STALE)
    cell = Cell(key, paper, own.value, own.low, own.high, own.n, "; ".join(reasons))
    where = "not in the paper" if entry.where == "nowhere" else entry.where
    raters = "" if is_benchmark or own.value is None else parts.say_raters(entry.study)
    remark = "; ".join(filter(None, (asked.remark, raters)))
    basis = entry.format_spread() if paper is not None else ""
    return Line(cell, name, where, own.unit, entry.study, entry.quantity, basis, remark)


def _source(entry: PaperValue) -> str:
    """Return the part of the replication that has our number: a kind of study, or the benchmark."""
    return "benchmark" if entry.quantity in _OF_BENCHMARK else entry.study


# Also quantities of the evidence study: the benchmark has the verdicts of all classifiers on all records.
_OF_BENCHMARK = (
    "pass_at_k", "sufficient_rate", "majority_sufficient_rate", "consensus_sufficient_rate", "model_agreement",
    "conditional_agreement",
)  # fmt: skip
_NUMBERS = (
    "mean_confidence", "avg_pairwise_kappa", "human_model_kappa", "auc_confidence_correct", "dprime", "mrmc_mean_auc",
)  # fmt: skip
_NAMES = {
    "plausibility_rate": "Rated plausible",
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
    "sufficient_rate": "Judged sufficient",
    "majority_sufficient_rate": "Judged sufficient by most classifiers",
    "consensus_sufficient_rate": "Judged sufficient by all classifiers",
    "pass_at_k": "pass@{k}",
}
_ERRORS = {"none": "unperturbed", "obvious": "Error Type 1 (obvious)", "subtle": "Error Type 2 (subtle)"}


def _name(entry: PaperValue, model: str | None = None) -> str:
    parts = [_NAMES[entry.quantity].format(k=entry.k), model or entry.model, _ERRORS.get(entry.error or "")]
    return ", ".join(filter(None, parts))


def _none(reason: str) -> Own:
    return Own(None, None, None, None, "", reason)


def _find(asked: _Asked, parts: Parts) -> Own:
    """Return our number for an entry, or the reason why there is none."""
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


# Arguments that select the result to compare with the paper's, among others of the same statistic.
_ARGS: Mapping[str, Json] = {
    "avg_pairwise_kappa": {"min_overlap": 20},
    "avg_pairwise_agreement": {"min_overlap": 20},
    "dprime": {"mean_over": "raters"},
}


def _result(stat: str, document: Json) -> Own:
    args = _ARGS.get(stat, {})
    row = next((row for row in document["results"] if row["stat"] == stat and row["args"] == args), None)
    if row is None:
        return _none("this study has no such number")
    return Own(row["value"], row["low"], row["high"], row["n"].get("ratings"), "ratings", row["reason"])


def _rate(asked: _Asked, parts: Parts, document: Json) -> Own:
    for row in records(document["tables"]["rates"]):
        if _is_of(asked, parts, row):
            return Own(row["rate"], row["low"], row["high"], row["n"], "ratings", row["reason"])
    return _none(_no_items(asked, parts))


def _is_of(asked: _Asked, parts: Parts, row: Json) -> bool:
    """Return whether a row of rates is for this model, in the role and with the error of the entry."""
    declared = DeclaredModel(asked.model or "", asked.entry.role or "")
    return parts.declared.get(row["source"]) == declared and row["error"] == asked.entry.error


def _no_items(asked: _Asked, parts: Parts) -> str:
    message = f"no items by {asked.model} as {(asked.entry.role or '').replace('_', ' ')}"
    return message + _no_successor(asked.model, parts)


def _no_successor(model: str | None, parts: Parts) -> str:
    """Return the addition to a missing number's reason if successors were played, but none of this model."""
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
    ensemble = {
        "majority_sufficient_rate": MAJORITY,
        "consensus_sufficient_rate": CONSENSUS,
    }.get(asked.entry.quantity)
    for row in records(parts.benchmark.document["tables"]["fractions"]):
        if ensemble is None:
            is_match = (row["who"], row["kind"]) == (asked.model, "classifier")
        else:
            # An ensemble is comparable only if it is over exactly the paper's classifiers.
            classifiers = set(row.get("models", "").split(", "))
            is_match = row["who"] in (ensemble, ENSEMBLES[ensemble]) and classifiers == set(asked.models)
        if is_match:
            return Own(row["share"], row["low"], row["high"], row["n"], "records")
    if ensemble is None:
        return _none(f"no verdicts of {asked.model}{_no_successor(asked.model, parts)}")
    return _none(_say_silent(asked, parts) or "computed by an earlier version; open the benchmark's page")


def _say_silent(asked: _Asked, parts: Parts) -> str:
    """Return which of the classifiers behind a number gave no verdict; "" if all did."""
    rows = records(parts.benchmark.document["tables"]["fractions"]) if parts.benchmark else []
    classifiers = {row["who"] for row in rows if row["kind"] == "classifier"}
    silent = [model for model in asked.models if model not in classifiers]
    if not silent:
        return ""
    return (
        f"the paper's number is over {len(asked.models)} classifiers, but there are no verdicts of {', '.join(silent)}"
    )


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
    reason = parts.why[asked.entry.study] if parts.transitions is None else _no_items(asked, parts)
    total = sum(row["n"] for row in rows)
    for verdict, label in ((1, "plausible"), (0, "implausible")):
        for level in range(1, 6):
            our_number = _none(reason)
            if total:
                n = sum(row["n"] for row in rows if (row["verdict"], row["confidence"]) == (verdict, level))
                our_number = Own(
                    n / total,
                    None,
                    None,
                    total,
                    "ratings",
                    "not computed for the shares of a histogram, only for rates",
                )
            name = f"{asked.name}: {label}, confidence {level}"
            yield _line(asked, parts, f"{asked.key}-{label}-{level}", name, None, asked.entry.reason or "", our_number)


def _matrix(asked: _Asked, parts: Parts) -> Iterator[Line]:
    """Yield the ends of the printed range, then each pair of the same classifiers, for which the paper prints no number."""
    entry, cells = asked.entry, _find_cells(asked, parts)
    reason = parts.why["benchmark"] if parts.benchmark is None else _say_silent(asked, parts)
    values = [number.value for number in cells.values() if number.value is not None]
    if not reason and len(values) < len(cells):
        reason = "one of the pairs has no number"
    for end, name, choose_extreme in ((0, "lowest", min), (1, "highest", max)):
        our_number = _none(reason)
        if not reason:
            our_number = Own(
                choose_extreme(values),
                None,
                None,
                len(values),
                "pairs",
                "not computed for the extreme of several shares",
            )
        paper = entry.range[end] if entry.range else None
        yield _line(
            asked,
            parts,
            f"{asked.key}-{name}",
            f"{asked.name}: {name}",
            paper,
            "" if paper else entry.reason or "",
            our_number,
        )
    for (row, col), our_number in cells.items():
        name, key = f"{asked.name}: {row} and {col}", f"{asked.key}-{row}-{col}"
        yield _line(asked, parts, key, name, None, "printed only as a figure", our_number)


def _find_cells(asked: _Asked, parts: Parts) -> dict[tuple[str, str], Own]:
    """Return our number for each pair of the entry's classifiers, or the reason why there is none."""
    classifiers = sorted(asked.models)
    if asked.entry.quantity == "model_agreement":  # symmetric: each pair once
        pairs = list(combinations(classifiers, 2))
    else:
        pairs = [(row, col) for row in classifiers for col in classifiers if row != col and asked.model in (None, row)]
    if parts.benchmark is None:
        return dict.fromkeys(pairs, _none(parts.why["benchmark"]))
    table = "agreement_matrix" if asked.entry.quantity == "model_agreement" else "conditional_matrix"
    rows = {(row["row"], row["col"]): row for row in records(parts.benchmark.document["tables"][table])}
    all_judges = {row["who"] for row in records(parts.benchmark.document["tables"]["fractions"])}
    return {pair: _cell(pair, rows.get(pair), all_judges) for pair in pairs}


def _cell(pair: tuple[str, str], row: Json | None, judged: Collection[str]) -> Own:
    if row is None:
        return _none(f"no verdicts of {' and '.join(name for name in pair if name not in judged)}")
    if row["value"] is None:
        return _none("no record to compute the share from")
    return Own(row["value"], None, None, row["base"], "records", "not computed for cells of a matrix")
