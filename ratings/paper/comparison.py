"""The paper's numbers beside those of the replication ("ours"): one list for the page and for paper.json."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from django.db.models import QuerySet

from ratings.models import Analysis, Benchmark, Study
from ratings.paper.plan import ReplicationNames
from ratings.results.analyses import store
from ratings.results.analyses.tables import list_records
from ratings.results.benchmarks import store as benchmark_store
from ratings.results.paper_values import (
    ENSEMBLES,
    DeclaredModel,
    PaperValue,
    find_agent_models,
    find_declared_models,
    find_successors,
    load_paper_values,
)
from ratings.stats.estimates import CONSENSUS, MAJORITY

NOT_CREATED = "not created yet (run `make paper`), or in a study in which you have no role"
NOT_COMPUTED = (
    "the study is not unblinded, or its results are not computed yet: open its page, or run `make paper` again"
)
NO_BENCHMARK = "the benchmark does not exist yet (run `make paper`)"
BENCHMARK_NOT_COMPUTED = "the benchmark is not computed yet: open its page, or run `make paper` again"
STALE = "our number is from an earlier state of the benchmark"
NOT_PRINTED = "not printed in the paper"
Json = dict[str, Any]


class ComparedNumber(NamedTuple):
    """One number: the paper's and ours. `reason`: why the paper's number, ours or our interval is missing; otherwise ""."""

    cell: str
    paper: float | None
    ours: float | None
    low: float | None
    high: float | None
    n: int | None
    reason: str


class ComparisonRow(NamedTuple):
    """A number with what people see beside it: its name, where the paper prints it, and the unit of n.

    `basis`: standard deviation, n and interval of the paper's number. `remark`: what limits the comparison.
    """

    cell: ComparedNumber
    name: str
    where: str
    unit: str
    study: str
    quantity: str
    basis: str = ""
    remark: str = ""

    @property
    def shown_paper(self) -> str:
        return self._format_number(self.cell.paper)

    @property
    def shown_ours(self) -> str:
        return self._format_number(self.cell.ours)

    @property
    def shown_interval(self) -> str:
        if self.cell.low is None or self.cell.high is None:
            return "none"
        return f"{self._format_number(self.cell.low)} to {self._format_number(self.cell.high)}"

    @property
    def shown_n(self) -> str:
        return "none" if self.cell.n is None else f"{self.cell.n:,} {self.unit}"

    def _format_number(self, value: float | None) -> str:
        if value is None:
            return "none"
        digits = ".2f" if self.quantity == "mean_confidence" else ".3f" if self.quantity in _NUMBERS else ".1%"
        text = format(value, digits)
        return text.replace("-", "\N{MINUS SIGN}")


class OurNumber(NamedTuple):
    """One of our numbers, from a table of an analysis."""

    value: float | None
    low: float | None
    high: float | None
    n: int | None
    unit: str
    reason: str = ""


class ReplicationResults(NamedTuple):
    """The results of a replication: the analyses of its studies and of its benchmark, None if one does not exist.

    `missing_reasons`: the reason for each part without an analysis. `stale`: what changed since the benchmark was computed, or "".
    """

    names: ReplicationNames
    transitions: Analysis | None
    evidence: Analysis | None
    benchmark: Analysis | None
    declared: Mapping[str, DeclaredModel]
    agents: Mapping[str, str]  # cast -> its agent's model
    successors: Mapping[str, tuple[str, ...]]  # model of the paper -> models that casts declare as its successors
    missing_reasons: Mapping[str, str]
    stale: str
    missing_verdicts: Mapping[str, int]  # further classifier -> verdicts it has not given

    @property
    def is_empty(self) -> bool:
        return self.transitions is None and self.evidence is None and self.benchmark is None

    @property
    def n_missing(self) -> int:
        return sum(self.missing_verdicts.values())

    def describe_raters(self, study: str) -> str:
        """Return a remark if all or some of our raters of this study are simulated, else ""."""
        analysis = {"transition_plausibility": self.transitions, "evidence_sufficiency": self.evidence}.get(study)
        kinds = {row["who"] for row in list_records(analysis.document["tables"]["raters"])} if analysis else set()
        if "simulated" not in kinds:
            return ""
        return "our raters are simulated" if kinds == {"simulated"} else "some of our raters are simulated"

    def has_played(self, role: str | None, model: str) -> bool:
        """Return whether the replication has results of this model in this role."""
        if role == "agent":
            return model in self.agents.values()
        if role == "evidence_classifier":
            return model in self.list_classifiers()
        return DeclaredModel(model, role or "") in self.declared.values()

    def list_classifiers(self) -> set[str]:
        """Return the classifiers that gave verdicts."""
        tables = [
            analysis.document["tables"][name]
            for analysis, name in ((self.benchmark, "fractions"), (self.evidence, "human_model"))
            if analysis
        ]
        return {row["who"] for table in tables for row in list_records(table) if row["kind"] == "classifier"}


def find_results(names: ReplicationNames, among: QuerySet[Study] | None = None) -> ReplicationResults:
    """Return the stored results of a replication, without computing any. Studies outside `among` are left out."""
    visible = Study.objects.all() if among is None else among
    studies = {row.slug: row for row in visible.filter(slug__in=[names.transitions_slug, names.evidence_slug])}
    transitions, evidence = (studies.get(slug) for slug in (names.transitions_slug, names.evidence_slug))
    benchmark = Benchmark.objects.filter(name=names.benchmark_name).first()
    newest = benchmark_store.find_newest(benchmark) if benchmark else None
    # Which models made the items is sealed until the study is unblinded.
    unblinded = transitions if transitions and transitions.is_unblinded else None
    return ReplicationResults(
        names,
        store.find_full(transitions) if transitions else None,
        store.find_full(evidence) if evidence else None,
        newest,
        find_declared_models(unblinded) if unblinded else {},
        find_agent_models(benchmark) if benchmark else {},
        find_successors(unblinded, benchmark),
        {
            "transition_plausibility": NOT_COMPUTED if transitions else NOT_CREATED,
            "evidence_sufficiency": NOT_COMPUTED if evidence else NOT_CREATED,
            "benchmark": BENCHMARK_NOT_COMPUTED if benchmark else NO_BENCHMARK,
        },
        benchmark_store.explain_stale(benchmark, newest) if benchmark and newest else "",
        benchmark_store.count_missing(benchmark) if benchmark else {},
    )


def compare_numbers(parts: ReplicationResults) -> list[ComparisonRow]:
    """Return every number of the paper beside ours, in the order of the paper's values."""
    return [line for entry in load_paper_values() for line in _iter_rows(entry, parts)]


def save_json(rows: Iterable[ComparisonRow], path: Path) -> None:
    """Write the numbers as a list of objects."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([line.cell._asdict() for line in rows], indent=1) + "\n", encoding="utf-8")


def summarise_missing(lines: Iterable[ComparisonRow]) -> str:
    """Return the last line of `make paper`: how many numbers there are, and for how many ours is missing."""
    numbers = [line.cell for line in lines]
    missing = sum(cell.ours is None for cell in numbers)
    return f"paper: {len(numbers)} cells, {missing} without a number, each with its reason"


class _ModelMatch(NamedTuple):
    """An entry of the paper's values, and our models to compare it with: the same models or their successors."""

    entry: PaperValue
    model: str | None
    models: tuple[str, ...]
    key: str
    name: str

    @property
    def successor_remark(self) -> str:
        is_same = self.model == self.entry.model and self.models == (self.entry.models or ())
        return "" if is_same else "our number is for a successor" if not self.models else "our number is for successors"


def _iter_rows(entry: PaperValue, parts: ReplicationResults) -> Iterator[ComparisonRow]:
    """Yield the rows of one entry: a single row, or one for each confidence, pair of classifiers or successor."""
    for model_match in _iter_matches(entry, parts):
        match entry.quantity:
            case "confidence_histogram":
                yield from _iter_histogram_rows(model_match, parts)
            case "model_agreement" | "conditional_agreement":
                yield from _iter_matrix_rows(model_match, parts)
            case _:
                our_number = _find_our_number(model_match, parts)
                yield _build_row(
                    model_match, parts, model_match.key, model_match.name, entry.value, entry.reason or "", our_number
                )


def _iter_matches(entry: PaperValue, parts: ReplicationResults) -> list[_ModelMatch]:
    """Return the models to compare with an entry: its own, and successors that were played instead or as well."""
    own_model = _ModelMatch(entry, entry.model, entry.models or (), entry.key, _format_name(entry))
    if entry.models:
        swap = {model: _replace_by_successor(entry, model, parts) for model in entry.models}
        models = tuple(swap[model] for model in entry.models)
        # Nothing was replaced, so there is only the comparison with the same models.
        if models == entry.models:
            return [own_model]
        model = swap[entry.model] if entry.model else None
        name = _format_name(entry, f"{entry.model} → {model}, successors" if entry.model else "successors")
        return [_ModelMatch(entry, model, models, f"{entry.key}-successors", name)]
    if not entry.model:
        return [own_model]
    successors = [
        _ModelMatch(
            entry,
            model,
            (),
            f"{entry.key}-successor-{model}",
            _format_name(entry, f"{entry.model} → {model}, successor"),
        )
        for model in parts.successors.get(entry.model, ())
        if parts.has_played(entry.role, model)
    ]
    return successors if successors and not parts.has_played(entry.role, entry.model) else [own_model, *successors]


def _replace_by_successor(entry: PaperValue, model: str, parts: ReplicationResults) -> str:
    """Return the model itself, or its successor if only the successor was played."""
    if parts.has_played(entry.role, model):
        return model
    return next((name for name in parts.successors.get(model, ()) if parts.has_played(entry.role, name)), model)


def _build_row(
    model_match: _ModelMatch,
    parts: ReplicationResults,
    key: str,
    name: str,
    paper: float | None,
    reason: str,
    our_number: OurNumber,
) -> ComparisonRow:
    entry, reasons = model_match.entry, []
    is_benchmark = _get_part(entry) == "benchmark"
    if paper is None:
        reasons.append(f"paper: {reason or NOT_PRINTED}")
    if our_number.value is None:
        reasons.append(f"ours: {our_number.reason or 'not computed'}")
    elif our_number.low is None:
        reasons.append(f"no interval for ours: {our_number.reason or 'none is computed for it'}")
    if our_number.value is not None and is_benchmark and parts.stale:
        reasons.append(STALE)
    cell = ComparedNumber(
        key, paper, our_number.value, our_number.low, our_number.high, our_number.n, "; ".join(reasons)
    )
    where = "not in the paper" if entry.where == "nowhere" else entry.where
    raters = "" if is_benchmark or our_number.value is None else parts.describe_raters(entry.study)
    remark = "; ".join(filter(None, (model_match.successor_remark, raters)))
    basis = entry.format_spread() if paper is not None else ""
    return ComparisonRow(cell, name, where, our_number.unit, entry.study, entry.quantity, basis, remark)


def _get_part(entry: PaperValue) -> str:
    """Return the part of the replication that has our number: a kind of study, or the benchmark."""
    return "benchmark" if entry.quantity in _BENCHMARK_QUANTITIES else entry.study


# Also quantities of the evidence study: the benchmark has the verdicts of all classifiers on all records.
_BENCHMARK_QUANTITIES = (
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


def _format_name(entry: PaperValue, model: str | None = None) -> str:
    parts = [_NAMES[entry.quantity].format(k=entry.k), model or entry.model, _ERRORS.get(entry.error or "")]
    return ", ".join(filter(None, parts))


def _build_missing(reason: str) -> OurNumber:
    return OurNumber(None, None, None, None, "", reason)


def _find_our_number(model_match: _ModelMatch, parts: ReplicationResults) -> OurNumber:
    """Return our number for an entry, or the reason why there is none."""
    entry = model_match.entry
    if entry.study == "benchmark":
        return _find_pass_at_k(model_match, parts)
    if entry.quantity in ("sufficient_rate", "majority_sufficient_rate", "consensus_sufficient_rate"):
        return _find_fraction(model_match, parts)
    analysis = parts.transitions if entry.study == "transition_plausibility" else parts.evidence
    if analysis is None:
        return _build_missing(parts.missing_reasons[entry.study])
    if entry.quantity == "plausibility_rate":
        return _find_rate(model_match, parts, analysis.document)
    if entry.quantity.startswith("human_model_"):
        return _find_human_model(model_match, parts, analysis.document)
    return _find_result(entry.quantity, analysis.document)


# If a statistic has several results: the arguments of the result to compare with the paper's.
_ARGS: Mapping[str, Json] = {
    "avg_pairwise_kappa": {"min_overlap": 20},
    "avg_pairwise_agreement": {"min_overlap": 20},
    "dprime": {"mean_over": "raters"},
}


def _find_result(stat: str, document: Json) -> OurNumber:
    args = _ARGS.get(stat, {})
    row = next((row for row in document["results"] if row["stat"] == stat and row["args"] == args), None)
    if row is None:
        return _build_missing("this study has no such number")
    return OurNumber(row["value"], row["low"], row["high"], row["n"].get("ratings"), "ratings", row["reason"])


def _find_rate(model_match: _ModelMatch, parts: ReplicationResults, document: Json) -> OurNumber:
    for row in list_records(document["tables"]["rates"]):
        if _is_rate_of(model_match, parts, row):
            return OurNumber(row["rate"], row["low"], row["high"], row["n"], "ratings", row["reason"])
    return _build_missing(_explain_no_items(model_match, parts))


def _is_rate_of(model_match: _ModelMatch, parts: ReplicationResults, row: Json) -> bool:
    """Return whether a row of the table of rates has the model of the match, and the role and error of its entry."""
    declared = DeclaredModel(model_match.model or "", model_match.entry.role or "")
    return parts.declared.get(row["source"]) == declared and row["error"] == model_match.entry.error


def _explain_no_items(model_match: _ModelMatch, parts: ReplicationResults) -> str:
    message = f"no items by {model_match.model} as {(model_match.entry.role or '').replace('_', ' ')}"
    return message + _explain_no_successor(model_match.model, parts)


def _explain_no_successor(model: str | None, parts: ReplicationResults) -> str:
    """Return text to append to a missing number's reason if successors were played, but none of this model."""
    return (
        f"; no successor of {model} was played either"
        if parts.successors and model not in _list_successors(parts.successors)
        else ""
    )


def _list_successors(successors: Mapping[str, Collection[str]]) -> set[str]:
    return {name for names in successors.values() for name in names}


def _find_human_model(model_match: _ModelMatch, parts: ReplicationResults, document: Json) -> OurNumber:
    stat = model_match.entry.quantity.removeprefix("human_model_")
    for row in list_records(document["tables"]["human_model"]):
        if (row["who"], row["kind"]) == (model_match.model, "classifier"):
            return OurNumber(row[stat], row[f"{stat}_low"], row[f"{stat}_high"], row["items"], "records", row["reason"])
    return _build_missing(
        f"{model_match.model} judged no record that two raters judged{_explain_no_successor(model_match.model, parts)}"
    )


def _find_fraction(model_match: _ModelMatch, parts: ReplicationResults) -> OurNumber:
    if parts.benchmark is None:
        return _build_missing(parts.missing_reasons["benchmark"])
    ensemble = {"majority_sufficient_rate": MAJORITY, "consensus_sufficient_rate": CONSENSUS}.get(
        model_match.entry.quantity
    )
    for row in list_records(parts.benchmark.document["tables"]["fractions"]):
        if ensemble is None:
            is_match = (row["who"], row["kind"]) == (model_match.model, "classifier")
        else:
            # An ensemble is comparable only if it is over exactly the paper's classifiers.
            classifiers = set(row.get("models", "").split(", "))
            is_match = row["who"] in (ensemble, ENSEMBLES[ensemble]) and classifiers == set(model_match.models)
        if is_match:
            return OurNumber(row["share"], row["low"], row["high"], row["n"], "records")
    if ensemble is None:
        return _build_missing(f"no verdicts of {model_match.model}{_explain_no_successor(model_match.model, parts)}")
    return _build_missing(
        _explain_silent_classifiers(model_match, parts) or "computed by an earlier version; open the benchmark's page"
    )


def _explain_silent_classifiers(model_match: _ModelMatch, parts: ReplicationResults) -> str:
    """Return which of the classifiers behind a number gave no verdict; "" if all did."""
    rows = list_records(parts.benchmark.document["tables"]["fractions"]) if parts.benchmark else []
    classifiers = {row["who"] for row in rows if row["kind"] == "classifier"}
    silent = [model for model in model_match.models if model not in classifiers]
    if not silent:
        return ""
    return f"the paper's number is over {len(model_match.models)} classifiers, but there are no verdicts of {', '.join(silent)}"


def _find_pass_at_k(model_match: _ModelMatch, parts: ReplicationResults) -> OurNumber:
    if parts.benchmark is None:
        return _build_missing(parts.missing_reasons["benchmark"])
    for row in list_records(parts.benchmark.document["tables"]["pass_at_k"]):
        if parts.agents.get(row["agent"]) == model_match.model and row["k"] == model_match.entry.k:
            return OurNumber(row["value"], row["low"], row["high"], row["attempts"], "attempts", row["reason"])
    return _build_missing(f"no attempts of {model_match.model}{_explain_no_successor(model_match.model, parts)}")


def _iter_histogram_rows(model_match: _ModelMatch, parts: ReplicationResults) -> Iterator[ComparisonRow]:
    """Yield the share of a source's ratings with each verdict and confidence (Fig. 3, centre)."""
    rows: list[Json] = []
    if parts.transitions is not None:
        tables = parts.transitions.document["tables"]
        sources = {row["source"] for row in list_records(tables["rates"]) if _is_rate_of(model_match, parts, row)}
        rows = [row for row in list_records(tables["confidence"]) if row["source"] in sources]
    reason = (
        parts.missing_reasons[model_match.entry.study]
        if parts.transitions is None
        else _explain_no_items(model_match, parts)
    )
    total = sum(row["n"] for row in rows)
    for verdict, label in ((1, "plausible"), (0, "implausible")):
        for level in range(1, 6):
            our_number = _build_missing(reason)
            if total:
                n = sum(row["n"] for row in rows if (row["verdict"], row["confidence"]) == (verdict, level))
                our_number = OurNumber(
                    n / total,
                    None,
                    None,
                    total,
                    "ratings",
                    "not computed for the shares of a histogram, only for rates",
                )
            name = f"{model_match.name}: {label}, confidence {level}"
            yield _build_row(
                model_match,
                parts,
                f"{model_match.key}-{label}-{level}",
                name,
                None,
                model_match.entry.reason or "",
                our_number,
            )


def _iter_matrix_rows(model_match: _ModelMatch, parts: ReplicationResults) -> Iterator[ComparisonRow]:
    """Yield rows for both ends of the paper's range, then for each pair of classifiers (not in the paper)."""
    entry, cells = model_match.entry, _find_pair_numbers(model_match, parts)
    reason = (
        parts.missing_reasons["benchmark"]
        if parts.benchmark is None
        else _explain_silent_classifiers(model_match, parts)
    )
    values = [number.value for number in cells.values() if number.value is not None]
    if not reason and len(values) < len(cells):
        reason = "one of the pairs has no number"
    for end, name, choose_extreme in ((0, "lowest", min), (1, "highest", max)):
        our_number = _build_missing(reason)
        if not reason:
            our_number = OurNumber(
                choose_extreme(values),
                None,
                None,
                len(values),
                "pairs",
                "not computed for the extreme of several shares",
            )
        paper = entry.range[end] if entry.range else None
        yield _build_row(
            model_match,
            parts,
            f"{model_match.key}-{name}",
            f"{model_match.name}: {name}",
            paper,
            "" if paper else entry.reason or "",
            our_number,
        )
    for (row, col), our_number in cells.items():
        name, key = f"{model_match.name}: {row} and {col}", f"{model_match.key}-{row}-{col}"
        yield _build_row(model_match, parts, key, name, None, "printed only as a figure", our_number)


def _find_pair_numbers(model_match: _ModelMatch, parts: ReplicationResults) -> dict[tuple[str, str], OurNumber]:
    """Return our number for each pair of the entry's classifiers, or the reason why there is none."""
    classifiers = sorted(model_match.models)
    if model_match.entry.quantity == "model_agreement":  # symmetric: each pair once
        pairs = list(combinations(classifiers, 2))
    else:
        pairs = [
            (row, col) for row in classifiers for col in classifiers if row != col and model_match.model in (None, row)
        ]
    if parts.benchmark is None:
        return dict.fromkeys(pairs, _build_missing(parts.missing_reasons["benchmark"]))
    table = "agreement_matrix" if model_match.entry.quantity == "model_agreement" else "conditional_matrix"
    rows = {(row["row"], row["col"]): row for row in list_records(parts.benchmark.document["tables"][table])}
    all_judges = {row["who"] for row in list_records(parts.benchmark.document["tables"]["fractions"])}
    return {pair: _build_pair_number(pair, rows.get(pair), all_judges) for pair in pairs}


def _build_pair_number(pair: tuple[str, str], row: Json | None, judges: Collection[str]) -> OurNumber:
    if row is None:
        return _build_missing(f"no verdicts of {' and '.join(name for name in pair if name not in judges)}")
    if row["value"] is None:
        return _build_missing("no record to compute the share from")
    return OurNumber(row["value"], None, None, row["base"], "records", "not computed for cells of a matrix")
