"""The document of a benchmark, in the format of a study's analysis. Figures, tables, CSV and JSON are built from it alone."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import combinations
from typing import Any, NamedTuple

from django.db.models import Count, Q, Sum

from ratings.models import Benchmark
from ratings.results.analyses import tables
from ratings.results.analyses.document import list_versions
from ratings.results.analyses.tables import Column, TableSpec
from ratings.results.benchmarks import DOCUMENT_VERSION, RESAMPLES, SEED
from ratings.results.benchmarks.store import count_missing
from ratings.results.paper_values import (
    ENSEMBLES,
    NOT_REPORTED,
    PaperValue,
    find_agent_models,
    find_ensemble,
    find_paper_value,
    find_published_fraction,
    iter_values,
    pair_with_reasons,
)
from ratings.stats import Estimate, human_model
from ratings.stats.human_model import MatrixCell
from ratings.stats.pass_at_k import TaskReplicates, compare_agents, estimate_mean_pass_at_k
from simulation.casts import pricing
from simulation.models import EvidenceReview, ModelCall
from simulation.runs import failure_reasons

SUCCESS, UNPROVEN = "success", "evidence"
_NO_ATTEMPT = ("failed",)  # the failure was not the agent's, so the agent was not tested
_TOKENS_IN = ("input_uncached", "cache_read", "cache_write_5m", "cache_write_1h")


class EpisodeResult(NamedTuple):
    """One episode of the benchmark.

    `cause`: "success", "evidence" (submitted, but judged not sufficient), or a key of simulation.runs.failure_reasons.
    `attempt`: whether the episode counts as an attempt of the agent.
    """

    code: str
    agent: str
    experiment: str
    cause: str
    attempt: bool


class AgentCost(NamedTuple):
    """The cost of an agent's episodes.

    `unknown`: number of calls whose cost is unknown. If it is above 0, `money` is a lower bound.
    """

    calls: int
    input_tokens: int
    output_tokens: int
    money: Decimal
    unknown: int


@dataclass(frozen=True)
class BenchmarkResults:
    """The results of all episodes of a benchmark.

    `verdicts`: whether each classifier judged the evidence sufficient, by classifier and episode code. `costs`: cost by agent.
    `models`: declared model by agent; agents without exactly one declared model are left out.
    """

    episodes: tuple[EpisodeResult, ...]
    verdicts: Mapping[str, Mapping[str, bool]]
    costs: Mapping[str, AgentCost]
    models: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, int] = field(default_factory=dict)  # verdicts not given, by further classifier

    @property
    def agent_names(self) -> list[str]:
        return sorted({episode.agent for episode in self.episodes})

    def count_attempts(self, agent: str) -> list[TaskReplicates]:
        """Return the agent's attempts and successes at each experiment that it played, sorted by name of the experiment.

        The number of attempts is 0 if no episode counts as an attempt.
        """
        attempts, successes = Counter[str](), Counter[str]()
        for episode in self.episodes:
            if episode.agent == agent:
                attempts[episode.experiment] += episode.attempt
                successes[episode.experiment] += episode.attempt and episode.cause == SUCCESS
        return [TaskReplicates(name, attempts[name], successes[name]) for name in sorted(attempts)]

    def count_causes(self, agent: str) -> Counter[str]:
        return Counter(episode.cause for episode in self.episodes if episode.agent == agent)


def load_results(benchmark: Benchmark) -> BenchmarkResults:
    """Return the results from which the benchmark's document is computed."""
    primary: dict[int, bool] = {}
    verdicts: dict[str, dict[str, bool]] = defaultdict(dict)
    reviews = EvidenceReview.objects.filter(episode__in=benchmark.episodes.values("pk")).order_by(
        "classifier", "episode"
    )
    for pk, code, classifier, is_primary, sufficient in reviews.values_list(
        "episode_id", "episode__code", "classifier", "primary", "sufficient"
    ):
        verdicts[classifier][str(code)] = sufficient
        # Only the cast's own classifier decides whether an attempt succeeded.
        if is_primary:
            primary[pk] = sufficient
    rows = benchmark.episodes.order_by("experiment__name", "cast", "replicate", "pk").values_list(
        "pk", "code", "cast", "experiment__name", "status", "reason"
    )
    episodes = tuple(
        EpisodeResult(
            str(code), cast, experiment, _find_cause(status, reason, primary.get(pk)), status not in _NO_ATTEMPT
        )
        for pk, code, cast, experiment, status, reason in rows
    )
    return BenchmarkResults(
        episodes, verdicts, _load_costs(benchmark), find_agent_models(benchmark), count_missing(benchmark)
    )


def _find_cause(status: str, reason: str, sufficient: bool | None) -> str:
    if status == "submitted":
        # If there is no verdict, the classifier failed, not the agent.
        return SUCCESS if sufficient else UNPROVEN if sufficient is False else "classifier"
    return failure_reasons.find_cause(status, reason)


def _load_costs(benchmark: Benchmark) -> dict[str, AgentCost]:
    """Return the cost of each agent according to the call log, including failed calls."""
    # Calls for twins and for replaced replicates belong to no episode of the benchmark.
    agent_calls = ModelCall.objects.filter(episode__in=benchmark.episodes.values("pk")).order_by()
    rows = agent_calls.values("episode__cast").annotate(
        calls=Count("pk"),
        **{name: Sum(name, default=0) for name in (*_TOKENS_IN, "output")},
        money=Sum("cost", default=Decimal(0)),
        unknown=Count("pk", filter=Q(cost__isnull=True) & ~Q(state="started")),
    )
    return {
        row["episode__cast"]: AgentCost(
            row["calls"],
            sum(row[name] for name in _TOKENS_IN),
            row["output"],
            pricing.round_money(row["money"]),
            row["unknown"],
        )
        for row in rows
    }


MOST_ATTEMPTS = 5
CAUSES = {
    "success": "reached the goal, evidence sufficient",
    "evidence": "submitted, evidence not sufficient",
    **{key: f"ended by {words}" for key, words in failure_reasons.CAUSES.items()},
}

_AGENT = Column("Agent", "the cast, including its simulator and classifier", "text")
_TASKS = Column("Experiments", "experiments that the agent attempted", "count")
_LOW = Column("Low", "lower end of the 95% interval, new experiments", "share")
_HIGH = Column("High", "upper end of the 95% interval, new experiments", "share")
_REASON = Column("Reason", "why a number or its interval is missing", "text")
_WHY_UNPUBLISHED = tables.COLUMNS["published_reason"]
_CELLS = {
    "row": Column("Of", "a classifier", "text"),
    "col": Column("With", "another classifier", "text"),
    "value": Column("Share", "share of equal verdicts among the records both judged", "share"),
    "n": Column("Records", "records of submitted episodes both judged", "count"),
    "base": Column("Base", "records in the denominator of the share", "count"),
}
Rows = Iterable[Sequence[Any]]


def _build_spec(title: str, columns: Mapping[str, Column]) -> TableSpec:
    """Return the specification of a table that defines all its columns itself."""
    return TableSpec(title, tuple(columns), columns)


FORMS: Mapping[str, TableSpec] = {
    "pass_at_k": _build_spec("Goals reached within k attempts", {
        "agent": _AGENT,
        "k": Column("k", "attempts", "count"),
        "value": Column("pass@k", "probability that at least one of k attempts reaches the goal, mean over experiments", "share"),
        "low": _LOW, "high": _HIGH,
        "tasks": _TASKS,
        "attempts": Column("Attempts", "attempts at these experiments; failures that were not the agent's do not count", "count"),
        "reason": _REASON,
        "published": Column("Published", "the paper's pass@k for the declared model of the agent", "share"),
        "published_reason": _WHY_UNPUBLISHED,
    }),
    "comparisons": _build_spec("Agents compared on the same experiments", {
        "first": Column("First", "an agent", "text"),
        "second": Column("Second", "the agent compared with it", "text"),
        "k": Column("k", "attempts", "count"),
        "difference": Column("Difference", "pass@k of the first minus that of the second, on shared experiments", "number"),
        "low": Column("Low", "lower end of its 95% interval", "number"),
        "high": Column("High", "upper end of its 95% interval", "number"),
        "p": Column("p", "two-sided: 1 minus the level of the interval that just reaches 0; not adjusted for multiple pairs", "number"),
        "mcnemar_p": Column("McNemar p", "exact, if each agent has one attempt at each experiment", "number"),
        "tasks": Column("Experiments", "experiments with k attempts of both", "count"),
        "reason": _REASON,
    }),
    "tasks": _build_spec("Experiments", {
        "experiment": Column("Experiment", "the goal of the experiment", "text"),
        "agent": _AGENT,
        "n": Column("Attempts", "attempts that count; 0: every episode failed for a reason other than the agent", "count"),
        "successes": Column("Reached", "attempts that reached the goal", "count"),
    }),
    "failures": _build_spec("Outcomes of episodes and causes of failure", {
        "agent": _AGENT,
        "cause": Column("Cause", "success, or what ended it: agent (evidence: it submitted too little), simulator, "
                        "classifier, provider, refusal, budget, wetbench", "text"),
        "said": Column("Description", "the cause as a phrase", "text"),
        "n": Column("Episodes", "episodes with this outcome", "count"),
        "share": Column("Share", "of the agent's episodes", "share"),
    }),
    "cost": _build_spec("Cost", {
        "agent": _AGENT,
        "episodes": Column("Episodes", "episodes of the benchmark", "count"),
        "calls": Column("Calls", "calls to models, including failed ones", "count"),
        "input_tokens": Column("Tokens in", "as counted by the providers, including cached ones", "count"),
        "output_tokens": Column("Tokens out", "including reasoning", "count"),
        "cost": Column("US dollars", "known cost of these calls", "number"),
        "unknown": Column("Cost unknown", "calls of unknown cost: if there are any, the cost is a lower bound", "count"),
        "per_success": Column("Dollars per success", "cost per attempt that reached its goal", "number"),
    }),
    "fractions": _build_spec("Share judged sufficient by each classifier", {
        "who": Column("Classifier", "the classifier; or the majority, or all, of the classifiers", "text"),
        "kind": Column("Kind", "classifier or ensemble", "text"),
        "share": Column("Sufficient", "share of the records judged sufficient", "share"),
        "k": Column("Yes", "records judged sufficient", "count"),
        "n": Column("Judged", "records judged", "count"),
        "low": Column("Low", "lower end of the 95% Wilson interval", "share"),
        "high": Column("High", "upper end of the 95% Wilson interval", "share"),
        "models": Column("Of", "the classifiers whose verdicts are counted", "text"),
        "published": Column("Published", "the paper's share for the same classifier, or for an ensemble of the same classifiers", "share"),
        "published_reason": _WHY_UNPUBLISHED,
    }),
    "agreement_matrix": _build_spec("Agreement of classifiers", _CELLS),
    "conditional_matrix": _build_spec("Conditional agreement of classifiers", {
        **_CELLS,
        "value": Column("Share", "share judged sufficient by the column, among records judged sufficient by the row", "share"),
        "base": Column("Base", "records judged by both and sufficient for the row", "count"),
    }),
}  # fmt: skip


def build_document(
    benchmark: Benchmark, results: BenchmarkResults, *, seed: int = SEED, resamples: int = RESAMPLES
) -> dict[str, Any]:
    """Return the document. The same episodes give the same bytes."""
    passes = [
        estimate_mean_pass_at_k(agent, results.count_attempts(agent), k)
        for agent in results.agent_names
        for k in range(1, MOST_ATTEMPTS + 1)
    ]
    comparisons = _compare_agents(results, seed, resamples)
    # A single classifier has no other classifier to agree with, so the matrices are then empty.
    verdicts_by_classifier = _list_verdicts(results) if len(results.verdicts) > 1 else {}
    rows_by_table: dict[str, Rows] = {
        "pass_at_k": _build_pass_rows(results, passes),
        "comparisons": _build_comparison_rows(comparisons),
        "tasks": [
            (task.task, agent, task.n, task.successes)
            for agent in results.agent_names
            for task in results.count_attempts(agent)
        ],
        "failures": _build_failure_rows(results),
        "cost": _build_cost_rows(results),
        "fractions": _build_fraction_rows(results),
        "agreement_matrix": map(_build_cell_row, human_model.build_agreement_matrix(verdicts_by_classifier)),
        "conditional_matrix": map(_build_cell_row, human_model.build_conditional_matrix(verdicts_by_classifier)),
    }
    return {
        "version": DOCUMENT_VERSION,
        "subject": {"benchmark": str(benchmark.code), "name": benchmark.name, "note": benchmark.note},
        "words": {"yes": "sufficient", "no": "not sufficient"},
        "made_with": list_versions(),
        "seed": seed,
        "resamples": resamples,
        "full": True,
        "data": {
            "sha256": benchmark.sha256,
            "episodes": len(results.episodes),
            "attempts": sum(episode.attempt for episode in results.episodes),
            "experiments": len({episode.experiment for episode in results.episodes}),
            "agents": len(results.agent_names),
            "missing_verdicts": sum(results.missing.values()),
        },
        "results": [result.to_dict() for result in (*passes, *comparisons)],
        "tables": {
            name: tables.build_custom_table(
                FORMS[name], table_rows, notes=_list_published_ranges(name, verdicts_by_classifier)
            )
            for name, table_rows in rows_by_table.items()
        },
        "notes": _list_notes(results, passes, seed, resamples),
    }


def _build_pass_row(result: Estimate) -> tuple[Any, ...]:
    args, n = result.args, result.n
    return args["agent"], args["k"], result.value, result.low, result.high, n["tasks"], n["attempts"], result.reason


def _build_pass_rows(results: BenchmarkResults, passes: Sequence[Estimate]) -> list[tuple[Any, ...]]:
    published = pair_with_reasons(_find_published(results, result) for result in passes)
    return [(*_build_pass_row(result), *paper) for result, paper in zip(passes, published, strict=True)]


def _find_published(results: BenchmarkResults, result: Estimate) -> PaperValue | None:
    """Return the paper's pass@k for the agent's declared model, or None."""
    model = results.models.get(result.args["agent"])
    return find_paper_value("pass_at_k", "benchmark", model=model, role="agent", k=result.args["k"]) if model else None


def _compare_agents(results: BenchmarkResults, seed: int, resamples: int) -> list[Estimate]:
    """Return the comparison of every pair of agents in pass@1, and in pass@k with the largest k defined for both.

    This k is the smallest number of attempts that either agent has at an experiment, but at most MOST_ATTEMPTS.
    """
    by_agent = {agent: results.count_attempts(agent) for agent in results.agent_names}
    comparisons = []
    for first, second in combinations(results.agent_names, 2):
        fewest = min((task.n for agent in (first, second) for task in by_agent[agent]), default=1)
        # For k above the smallest number of attempts, pass@k is undefined for one of the two agents.
        for k in sorted({1, min(max(fewest, 1), MOST_ATTEMPTS)}):
            comparisons += compare_agents(first, second, by_agent, k, seed=seed, resamples=resamples)
    return comparisons


def _build_comparison_rows(results: Sequence[Estimate]) -> list[tuple[Any, ...]]:
    values = {(result.stat, *result.args["agents"], result.args["k"]): result for result in results}
    rows = []
    for row_result in results:
        if row_result.stat != "pass_at_k_difference":
            continue
        key = (*row_result.args["agents"], row_result.args["k"])
        mcnemar = values.get(("mcnemar_p", *key))
        p = values["pass_at_k_difference_p", *key].value
        rows.append(
            (
                *key,
                row_result.value,
                row_result.low,
                row_result.high,
                p,
                mcnemar and mcnemar.value,
                row_result.n["tasks"],
                row_result.reason,
            )
        )
    return rows


def _build_failure_rows(results: BenchmarkResults) -> list[tuple[Any, ...]]:
    rows = []
    for agent in results.agent_names:
        causes_of_agent = results.count_causes(agent)
        for cause, phrase in CAUSES.items():
            if causes_of_agent[cause]:
                rows.append(
                    (agent, cause, phrase, causes_of_agent[cause], causes_of_agent[cause] / causes_of_agent.total())
                )
    return rows


def _build_cost_rows(results: BenchmarkResults) -> list[tuple[Any, ...]]:
    rows = []
    for agent in results.agent_names:
        causes_of_agent = results.count_causes(agent)
        cost = results.costs.get(agent)
        if cost is None:  # rule-based agents make no calls
            rows.append((agent, causes_of_agent.total(), 0, 0, 0, 0.0, 0, 0.0 if causes_of_agent["success"] else None))
            continue
        money = float(cost.money)
        per_success = money / causes_of_agent["success"] if causes_of_agent["success"] else None
        usage = cost.calls, cost.input_tokens, cost.output_tokens, money, cost.unknown
        rows.append((agent, causes_of_agent.total(), *usage, per_success))
    return rows


def _list_verdicts(results: BenchmarkResults) -> dict[str, dict[str, int]]:
    return {name: {code: int(yes) for code, yes in verdicts.items()} for name, verdicts in results.verdicts.items()}


def _build_fraction_rows(results: BenchmarkResults) -> list[tuple[Any, ...]]:
    """Return the rows of shares judged sufficient: each classifier, their majority and consensus, and the paper's ensembles.

    The paper's ensembles are the majority and the consensus of the paper's classifiers; they have rows if further classifiers
    judged too.
    """
    models = _list_verdicts(results)
    rows = [
        (*_build_share_row(fraction, "classifier"), fraction.name)
        for fraction in human_model.estimate_fractions(models)
    ]
    if len(models) > 1:
        rows += _build_ensemble_rows(models, human_model.MAJORITY, human_model.CONSENSUS)
        paper_panels = {tuple(entry.models or ()) for who in ENSEMBLES if (entry := find_ensemble(who))}
        for classifiers in sorted(paper_panels):
            # If only the paper's classifiers judged, the rows above already have its ensembles.
            if set(classifiers) < set(models):
                rows += _build_ensemble_rows({name: models[name] for name in sorted(classifiers)}, *ENSEMBLES.values())
    ensemble_keys = {label: who for who, label in ENSEMBLES.items()}
    published = pair_with_reasons(
        find_published_fraction(ensemble_keys.get(row[0], row[0]), row[1], row[-1].split(", ")) for row in rows
    )
    return [(*row, *paper) for row, paper in zip(rows, published, strict=True)]


def _build_ensemble_rows(
    models: Mapping[str, Mapping[str, int]], majority: str, consensus: str
) -> list[tuple[Any, ...]]:
    ensemble_verdicts = {
        majority: human_model.compute_majority(models).verdicts,
        consensus: human_model.compute_consensus(models),
    }
    return [
        (*_build_share_row(fraction, "ensemble"), ", ".join(models))
        for fraction in human_model.estimate_fractions(ensemble_verdicts)
    ]


def _build_share_row(fraction: human_model.Fraction, kind: str) -> tuple[Any, ...]:
    return fraction.name, kind, fraction.share, fraction.k, fraction.n, fraction.low, fraction.high


def _list_published_ranges(name: str, models: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return the paper's values for a matrix, as sentences, if all classifiers to which they apply judged here as
    well.
    """
    quantity = {"agreement_matrix": "model_agreement", "conditional_matrix": "conditional_agreement"}.get(name)
    entries = iter_values(lambda entry: entry.quantity == quantity and set(entry.models or ()) <= set(models))
    return [f"{entry.description[:-1]}, over {', '.join(entry.models or ())}." for entry in entries]


def _build_cell_row(cell: MatrixCell) -> tuple[Any, ...]:
    return cell.row, cell.col, cell.value, cell.n, cell.base


def _list_notes(results: BenchmarkResults, passes: Sequence[Estimate], seed: int, resamples: int) -> list[str]:
    notes = [
        "An attempt is an episode that the agent ended: submitted, given up, three rejected actions in a row, "
        "or out of steps. It succeeds if the cast's own classifier finds the evidence sufficient.",
        "pass@k is undefined for an agent if any experiment has fewer than k attempts; it is never extrapolated.",
        "The interval of pass@k is Wilson's with the effective number of experiments; if pass@k is 0 for every "
        "experiment, or 1 for every experiment, it is Clopper-Pearson's.",
        f"Differences have intervals and p-values from {resamples:,} resamples of experiments, seed {seed}. Both have the same "
        "small-sample correction: p is below .05 if and only if the 95% interval excludes 0.",
        "Shares judged sufficient have Wilson's interval, which treats the records as independent.",
    ]
    if any(_find_published(results, result) is not None for result in passes):
        notes.append(f"Published values are the paper's for the declared model of the agent ({NOT_REPORTED}).")
    if n_failed := sum(not episode.attempt for episode in results.episodes):
        notes.append(
            f"{n_failed} episodes failed for reasons other than the agent: they are not attempts, and are listed under causes of failure."
        )
    if results.missing:
        missing_by_classifier = ", ".join(f"{name} {n}" for name, n in results.missing.items())
        notes.append(
            f"{sum(results.missing.values())} verdicts of further classifiers are missing ({missing_by_classifier}); the records are counted without them."
        )
    models = _list_verdicts(results)
    if len(models) > 1 and (ties := human_model.compute_majority(models).ties):
        notes.append(f"{ties} records without a majority among the classifiers count as not sufficient.")
    return notes
