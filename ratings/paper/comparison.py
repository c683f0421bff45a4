"""The paper's numbers beside those of the replication ("ours"): one list for the page and for paper.json."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import combinations, permutations
from pathlib import Path
from typing import Any, NamedTuple

from django.db.models import QuerySet

from ratings.models import Analysis, Benchmark, Study
from ratings.paper.plan import ReplicationNames
from ratings.results import paper_values
from ratings.results.analyses import store
from ratings.results.analyses.tables import list_records
from ratings.results.benchmarks import store as benchmark_store
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
# Quantities that come from the benchmark, although they are also of the evidence study: it has the verdicts of all classifiers
# on all records.
_BENCHMARK_QUANTITIES = (
    "pass_at_k", "sufficient_rate", "majority_sufficient_rate", "consensus_sufficient_rate", "model_agreement",
    "conditional_agreement",
)  # fmt: skip
_ENSEMBLES = {"majority_sufficient_rate": MAJORITY, "consensus_sufficient_rate": CONSENSUS}
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
# If a statistic has several results: the arguments of the result to compare with the paper's.
_ARGS: Mapping[str, Json] = {
    "avg_pairwise_kappa": {"min_overlap": 20},
    "avg_pairwise_agreement": {"min_overlap": 20},
    "dprime": {"mean_over": "raters"},
}


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
    """A number, its name and place in the paper. `basis`: of the paper's number. `remark`: what limits the comparison."""

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
        digits = (
            ".2f" if self.quantity == "mean_confidence" else ".3f" if self.quantity in paper_values.NUMBERS else ".1%"
        )
        return format(value, digits).replace("-", "\N{MINUS SIGN}")


class ReplicationResults(NamedTuple):
    """The results of a replication: the analyses of its studies and of its benchmark, None if one does not exist.

    `missing_reasons`: the reason for each part without an analysis. `stale`: what changed since the benchmark was computed, or "".
    """

    names: ReplicationNames
    transitions: Analysis | None
    evidence: Analysis | None
    benchmark: Analysis | None
    declared: Mapping[str, paper_values.DeclaredModel]
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
        kinds = {row["who"] for row in _list_rows(analysis, "raters")}
        if "simulated" not in kinds:
            return ""
        return "our raters are simulated" if kinds == {"simulated"} else "some of our raters are simulated"

    def has_played(self, role: str | None, model: str) -> bool:
        """Return whether the replication has results of this model in this role."""
        if role == "agent":
            return model in self.agents.values()
        if role == "evidence_classifier":
            return model in self.list_classifiers()
        return paper_values.DeclaredModel(model, role or "") in self.declared.values()

    def list_classifiers(self) -> set[str]:
        """Return the classifiers that gave verdicts."""
        rows = [*_list_rows(self.benchmark, "fractions"), *_list_rows(self.evidence, "human_model")]
        return {row["who"] for row in rows if row["kind"] == "classifier"}


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
        paper_values.find_declared_models(unblinded) if unblinded else {},
        paper_values.find_agent_models(benchmark) if benchmark else {},
        paper_values.find_successors(unblinded, benchmark),
        {
            "transition_plausibility": NOT_COMPUTED if transitions else NOT_CREATED,
            "evidence_sufficiency": NOT_COMPUTED if evidence else NOT_CREATED,
            "benchmark": BENCHMARK_NOT_COMPUTED if benchmark else NO_BENCHMARK,
        },
        benchmark_store.explain_stale(benchmark, newest) if benchmark and newest else "",
        benchmark_store.count_missing(benchmark) if benchmark else {},
    )


def _list_rows(analysis: Analysis | None, table: str) -> list[Json]:
    """Return the rows of a table of an analysis; none if there is no analysis."""
    return list_records(analysis.document["tables"][table]) if analysis else []


def compare_numbers(parts: ReplicationResults) -> list[ComparisonRow]:
    """Return every number of the paper beside ours, in the order of the paper's values."""
    return [
        row
        for entry in paper_values.load_paper_values()
        for model_match in _iter_matches(entry, parts)
        for row in _iter_rows(model_match)
    ]


def save_json(rows: Iterable[ComparisonRow], path: Path) -> None:
    """Write the numbers as a list of objects."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([line.cell._asdict() for line in rows], indent=1) + "\n", encoding="utf-8")


def summarise_missing(lines: Iterable[ComparisonRow]) -> str:
    """Return the last line of `make paper`: how many numbers there are, and for how many ours is missing."""
    numbers = [line.cell for line in lines]
    missing = sum(cell.ours is None for cell in numbers)
    return f"paper: {len(numbers)} cells, {missing} without a number, each with its reason"


class _OurNumber(NamedTuple):
    """One of our numbers, from a table of an analysis, or the reason why there is none."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    unit: str = ""
    reason: str = ""


class _ModelMatch(NamedTuple):
    """An entry of the paper's values, and our models to compare it with: the same models or their successors."""

    entry: paper_values.PaperValue
    parts: ReplicationResults
    model: str | None
    models: tuple[str, ...]
    key: str
    name: str

    @property
    def successor_remark(self) -> str:
        is_same = self.model == self.entry.model and self.models == (self.entry.models or ())
        return "" if is_same else "our number is for a successor" if not self.models else "our number is for successors"

    @property
    def is_benchmark(self) -> bool:
        return self.entry.quantity in _BENCHMARK_QUANTITIES

    @property
    def analysis(self) -> Analysis | None:
        """Return the analysis that has our number; None if it does not exist."""
        if self.is_benchmark:
            return self.parts.benchmark
        return self.parts.transitions if self.entry.study == "transition_plausibility" else self.parts.evidence

    @property
    def missing_reason(self) -> str:
        """Return why there is no analysis; "" if there is one."""
        part = "benchmark" if self.is_benchmark else self.entry.study
        return "" if self.analysis else self.parts.missing_reasons[part]

    def list_rows(self, table: str) -> list[Json]:
        return _list_rows(self.analysis, table)

    def find_row(self, table: str, is_match: Callable[[Json], bool]) -> Json | None:
        return next(filter(is_match, self.list_rows(table)), None)

    def is_classifier(self, row: Json) -> bool:
        return (row["who"], row["kind"]) == (self.model, "classifier")

    def explain_none(self, what: str) -> _OurNumber:
        """Return a missing number; the reason adds if successors were played, but none of this model."""
        successors = {name for names in self.parts.successors.values() for name in names}
        no_successor = successors and self.model not in successors
        return _OurNumber(reason=f"{what}{f'; no successor of {self.model} was played either' if no_successor else ''}")

    def explain_no_items(self) -> _OurNumber:
        return self.explain_none(f"no items by {self.model} as {(self.entry.role or '').replace('_', ' ')}")

    def explain_silent_classifiers(self) -> str:
        """Return which of the classifiers behind a number gave no verdict; "" if all did."""
        classifiers = {row["who"] for row in self.list_rows("fractions") if row["kind"] == "classifier"}
        silent = [model for model in self.models if model not in classifiers]
        text = f"the paper's number is over {len(self.models)} classifiers, but there are no verdicts of {', '.join(silent)}"
        return text if silent else ""

    def is_rate(self, row: Json) -> bool:
        """Return whether a row of the table of rates has the model of the match, and the role and error of its entry."""
        declared = paper_values.DeclaredModel(self.model or "", self.entry.role or "")
        return self.parts.declared.get(row["source"]) == declared and row["error"] == self.entry.error


def _format_name(entry: paper_values.PaperValue, model: str | None = None) -> str:
    parts = [_NAMES[entry.quantity].format(k=entry.k), model or entry.model, _ERRORS.get(entry.error or "")]
    return ", ".join(filter(None, parts))


def _iter_matches(entry: paper_values.PaperValue, parts: ReplicationResults) -> list[_ModelMatch]:
    """Return the models to compare with an entry: its own, and successors that were played instead or as well."""
    own_model = _ModelMatch(entry, parts, entry.model, entry.models or (), entry.key, _format_name(entry))
    if entry.models:
        # The model itself, or its successor if only the successor was played.
        has_played = partial(parts.has_played, entry.role)
        swap = {
            model: next(filter(has_played, (model, *parts.successors.get(model, ()))), model) for model in entry.models
        }
        models = tuple(swap[model] for model in entry.models)
        # Nothing was replaced, so there is only the comparison with the same models.
        if models == entry.models:
            return [own_model]
        model = swap[entry.model] if entry.model else None
        name = _format_name(entry, f"{entry.model} → {model}, successors" if entry.model else "successors")
        return [_ModelMatch(entry, parts, model, models, f"{entry.key}-successors", name)]
    if not entry.model:
        return [own_model]
    successors = []
    for model in parts.successors.get(entry.model, ()):
        if parts.has_played(entry.role, model):
            name = _format_name(entry, f"{entry.model} → {model}, successor")
            successors.append(_ModelMatch(entry, parts, model, (), f"{entry.key}-successor-{model}", name))
    return successors if successors and not parts.has_played(entry.role, entry.model) else [own_model, *successors]


def _iter_rows(match: _ModelMatch) -> Iterator[ComparisonRow]:
    """Yield the rows of one entry: a single row, or one for each confidence, pair of classifiers or successor."""
    if match.entry.quantity == "confidence_histogram":
        yield from _iter_histogram_rows(match)
    elif match.entry.quantity in ("model_agreement", "conditional_agreement"):
        yield from _iter_matrix_rows(match)
    else:
        our_number = _OurNumber(reason=match.missing_reason) if match.missing_reason else _find_our_number(match)
        yield _build_row(match, "", "", match.entry.value, match.entry.reason or "", our_number)


def _build_row(
    match: _ModelMatch, key: str, name: str, paper: float | None, reason: str, ours: _OurNumber
) -> ComparisonRow:
    """Return the row of one number. `key` and `name` distinguish the numbers of one entry."""
    entry, reasons = match.entry, []
    if paper is None:
        reasons.append(f"paper: {reason or NOT_PRINTED}")
    if ours.value is None:
        reasons.append(f"ours: {ours.reason or 'not computed'}")
    elif ours.low is None:
        reasons.append(f"no interval for ours: {ours.reason or 'none is computed for it'}")
    if ours.value is not None and match.is_benchmark and match.parts.stale:
        reasons.append(STALE)
    cell = ComparedNumber(f"{match.key}{key}", paper, ours.value, ours.low, ours.high, ours.n, "; ".join(reasons))
    where = "not in the paper" if entry.where == "nowhere" else entry.where
    raters = "" if match.is_benchmark or ours.value is None else match.parts.describe_raters(entry.study)
    remark = "; ".join(filter(None, (match.successor_remark, raters)))
    basis = entry.format_spread() if paper is not None else ""
    return ComparisonRow(cell, f"{match.name}{name}", where, ours.unit, entry.study, entry.quantity, basis, remark)


def _find_our_number(match: _ModelMatch) -> _OurNumber:
    """Return our number for an entry whose analysis exists, or the reason why there is none."""
    quantity = match.entry.quantity
    if quantity == "pass_at_k":
        wanted = match.model, match.entry.k
        row = match.find_row("pass_at_k", lambda row: (match.parts.agents.get(row["agent"]), row["k"]) == wanted)
        return _read_number(row, "value", "attempts", "attempts") or match.explain_none(f"no attempts of {match.model}")
    if quantity in _BENCHMARK_QUANTITIES:
        return _find_fraction(match)
    if quantity == "plausibility_rate":
        return _read_number(match.find_row("rates", match.is_rate), "rate", "n", "ratings") or match.explain_no_items()
    if quantity.startswith("human_model_"):
        stat, row = quantity.removeprefix("human_model_"), match.find_row("human_model", match.is_classifier)
        ours = _read_number(row, stat, "items", "records", f"{stat}_")
        return ours or match.explain_none(f"{match.model} judged no record that two raters judged")
    for row in match.analysis.document["results"] if match.analysis else ():
        if row["stat"] == quantity and row["args"] == _ARGS.get(quantity, {}):
            return _OurNumber(row["value"], row["low"], row["high"], row["n"].get("ratings"), "ratings", row["reason"])
    return _OurNumber(reason="this study has no such number")


def _read_number(row: Json | None, value: str, n: str, unit: str, prefix: str = "") -> _OurNumber | None:
    """Return the number in the column `value` of a row, with the interval in its columns `prefix` low and high."""
    if row is None:
        return None
    return _OurNumber(row[value], row[f"{prefix}low"], row[f"{prefix}high"], row[n], unit, row.get("reason", ""))


def _find_fraction(match: _ModelMatch) -> _OurNumber:
    ensemble = _ENSEMBLES.get(match.entry.quantity)
    if ensemble is None:
        ours = _read_number(match.find_row("fractions", match.is_classifier), "share", "n", "records")
        return ours or match.explain_none(f"no verdicts of {match.model}")
    names = ensemble, paper_values.ENSEMBLES[ensemble]
    # An ensemble is comparable only if it is over exactly the paper's classifiers.
    row = match.find_row(
        "fractions",
        lambda row: row["who"] in names and set(row.get("models", "").split(", ")) == set(match.models),
    )
    reason = match.explain_silent_classifiers() or "computed by an earlier version; open the benchmark's page"
    return _read_number(row, "share", "n", "records") or _OurNumber(reason=reason)


def _iter_histogram_rows(match: _ModelMatch) -> Iterator[ComparisonRow]:
    """Yield the share of a source's ratings with each verdict and confidence (Fig. 3, centre)."""
    sources = {row["source"] for row in match.list_rows("rates") if match.is_rate(row)}
    rows = [row for row in match.list_rows("confidence") if row["source"] in sources]
    total = sum(row["n"] for row in rows)
    why_no_interval = "not computed for the shares of a histogram, only for rates"
    for verdict, label in ((1, "plausible"), (0, "implausible")):
        for level in range(1, 6):
            ours = _OurNumber(reason=match.missing_reason) if match.missing_reason else match.explain_no_items()
            if total:
                n = sum(row["n"] for row in rows if (row["verdict"], row["confidence"]) == (verdict, level))
                ours = _OurNumber(n / total, None, None, total, "ratings", why_no_interval)
            name = f": {label}, confidence {level}"
            yield _build_row(match, f"-{label}-{level}", name, None, match.entry.reason or "", ours)


def _iter_matrix_rows(match: _ModelMatch) -> Iterator[ComparisonRow]:
    """Yield rows for both ends of the paper's range, then for each pair of classifiers (not in the paper)."""
    entry, cells = match.entry, _find_pair_numbers(match)
    reason = match.missing_reason or match.explain_silent_classifiers()
    values = [number.value for number in cells.values() if number.value is not None]
    if not reason and len(values) < len(cells):
        reason = "one of the pairs has no number"
    for end, name, choose_extreme in ((0, "lowest", min), (1, "highest", max)):
        ours = _OurNumber(reason=reason)
        if not reason:
            why_no_interval = "not computed for the extreme of several shares"
            ours = _OurNumber(choose_extreme(values), None, None, len(values), "pairs", why_no_interval)
        paper = entry.range[end] if entry.range else None
        yield _build_row(match, f"-{name}", f": {name}", paper, "" if paper else entry.reason or "", ours)
    for (row, col), ours in cells.items():
        yield _build_row(match, f"-{row}-{col}", f": {row} and {col}", None, "printed only as a figure", ours)


def _find_pair_numbers(match: _ModelMatch) -> dict[tuple[str, str], _OurNumber]:
    """Return our number for each pair of the entry's classifiers, or the reason why there is none."""
    classifiers, is_symmetric = sorted(match.models), match.entry.quantity == "model_agreement"
    pairs = list(combinations(classifiers, 2))  # of a symmetric matrix: each pair once
    if not is_symmetric:
        pairs = [pair for pair in permutations(classifiers, 2) if match.model in (None, pair[0])]
    if match.missing_reason:
        return dict.fromkeys(pairs, _OurNumber(reason=match.missing_reason))
    table = match.list_rows("agreement_matrix" if is_symmetric else "conditional_matrix")
    rows = {(row["row"], row["col"]): row for row in table}
    judges = {row["who"] for row in match.list_rows("fractions")}
    return {pair: _build_pair_number(pair, rows.get(pair), judges) for pair in pairs}


def _build_pair_number(pair: tuple[str, str], row: Json | None, judges: Collection[str]) -> _OurNumber:
    if row is None:
        return _OurNumber(reason=f"no verdicts of {' and '.join(name for name in pair if name not in judges)}")
    if row["value"] is None:
        return _OurNumber(reason="no record to compute the share from")
    return _OurNumber(row["value"], None, None, row["base"], "records", "not computed for cells of a matrix")
