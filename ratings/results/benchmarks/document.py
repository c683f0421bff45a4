"""The document of a benchmark, in the format of a study's analysis. Figures, tables, CSV and JSON are built from it alone."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import combinations
from typing import Any, NamedTuple

from django.db.models import Count, Q, Sum

from ratings.models import Benchmark
from ratings.results import paper_values
from ratings.results.analyses.store import list_versions
from ratings.results.analyses.tables import COLUMNS, Cells, Column, TableSpec, build_custom_table
from ratings.results.benchmarks import DOCUMENT_VERSION, RESAMPLES, SEED
from ratings.results.benchmarks.store import count_missing
from ratings.results.paper_values import ENSEMBLES, PaperValue
from ratings.stats import Estimate, human_model
from ratings.stats.proportions import Rate, TaskReplicates, compare_agents, estimate_mean_pass_at_k
from simulation.casts import pricing
from simulation.models import EvidenceReview, ModelCall
from simulation.runs import failure_reasons

MOST_ATTEMPTS = 5
CAUSES = {
    "success": "reached the goal, evidence sufficient",
    "evidence": "submitted, evidence not sufficient",
    **{key: f"ended by {words}" for key, words in failure_reasons.CAUSES.items()},
}
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
    """The cost of an agent's episodes. With `unknown` calls, whose cost is not known, `money` is a lower bound."""

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
        """Return the agent's attempts (which can be 0) and successes at each experiment it played, by name."""
        attempts, successes = Counter[str](), Counter[str]()
        for episode in self.episodes:
            if episode.agent == agent:
                attempts[episode.experiment] += episode.attempt
                successes[episode.experiment] += episode.attempt and episode.cause == "success"
        return [TaskReplicates(name, attempts[name], successes[name]) for name in sorted(attempts)]

    def count_causes(self, agent: str) -> Counter[str]:
        return Counter(episode.cause for episode in self.episodes if episode.agent == agent)


def load_results(benchmark: Benchmark) -> BenchmarkResults:
    """Return the results from which the benchmark's document is computed, in five queries."""
    primary: dict[int, bool] = {}
    verdicts: dict[str, dict[str, bool]] = defaultdict(dict)
    reviews = EvidenceReview.objects.filter(episode__in=benchmark.episodes.values("pk")).order_by(
        "classifier", "episode"
    )
    columns = "episode_id", "episode__code", "classifier", "primary", "sufficient"
    for pk, code, classifier, is_primary, sufficient in reviews.values_list(*columns):
        verdicts[classifier][str(code)] = sufficient
        # Only the cast's own classifier decides whether an attempt succeeded.
        if is_primary:
            primary[pk] = sufficient
    rows = benchmark.episodes.order_by("experiment__name", "cast", "replicate", "pk")
    names = ("pk", "code", "cast", "experiment__name", "status", "reason")
    episodes = tuple(
        # If an episode failed, the failure was not the agent's, so the agent was not tested.
        EpisodeResult(str(code), cast, experiment, _find_cause(status, reason, primary.get(pk)), status != "failed")
        for pk, code, cast, experiment, status, reason in rows.values_list(*names)
    )
    costs, models, missing = _load_costs(benchmark), paper_values.find_agent_models(benchmark), count_missing(benchmark)
    return BenchmarkResults(episodes, verdicts, costs, models, missing)


def _find_cause(status: str, reason: str, sufficient: bool | None) -> str:
    if status == "submitted":
        # If there is no verdict, the classifier failed, not the agent.
        return "success" if sufficient else "evidence" if sufficient is False else "classifier"
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
    costs = {}
    for row in rows:
        tokens_in, money = sum(row[name] for name in _TOKENS_IN), pricing.round_money(row["money"])
        costs[row["episode__cast"]] = AgentCost(row["calls"], tokens_in, row["output"], money, row["unknown"])
    return costs


class _Content(NamedTuple):
    """What the tables of a benchmark are built from. `judges`: verdict of each classifier, by episode code."""

    results: BenchmarkResults
    passes: Sequence[Estimate]
    comparisons: Sequence[Estimate]
    judges: Mapping[str, Mapping[str, int]]

    @property
    def matrix_judges(self) -> Mapping[str, Mapping[str, int]]:
        """A single classifier has no other classifier to agree with, so the matrices are then empty."""
        return self.judges if len(self.judges) > 1 else {}


def _find_published(results: BenchmarkResults, result: Estimate) -> PaperValue | None:
    """Return the paper's pass@k for the agent's declared model, or None."""
    if model := results.models.get(result.args["agent"]):
        return paper_values.find_paper_value("pass_at_k", "benchmark", model=model, role="agent", k=result.args["k"])
    return None


def _iter_pass_rows(content: _Content) -> Iterable[Cells]:
    published = paper_values.pair_with_reasons(_find_published(content.results, row) for row in content.passes)
    for row, paper in zip(content.passes, published, strict=True):
        numbers = row.value, row.low, row.high, row.n["tasks"], row.n["attempts"]
        yield row.args["agent"], row.args["k"], *numbers, row.reason, *paper


def _iter_comparison_rows(content: _Content) -> Iterable[Cells]:
    values = {(row.stat, *row.args["agents"], row.args["k"]): row for row in content.comparisons}
    for row in content.comparisons:
        if row.stat == "pass_at_k_difference":
            key = (*row.args["agents"], row.args["k"])
            p, mcnemar = values["pass_at_k_difference_p", *key].value, values.get(("mcnemar_p", *key))
            yield *key, row.value, row.low, row.high, p, mcnemar and mcnemar.value, row.n["tasks"], row.reason


def _iter_task_rows(content: _Content) -> Iterable[Cells]:
    for agent in content.results.agent_names:
        for task in content.results.count_attempts(agent):
            yield task.task, agent, task.n, task.successes


def _iter_failure_rows(content: _Content) -> Iterable[Cells]:
    for agent in content.results.agent_names:
        counts = content.results.count_causes(agent)
        for cause, phrase in CAUSES.items():
            if counts[cause]:
                yield agent, cause, phrase, counts[cause], counts[cause] / counts.total()


def _iter_cost_rows(content: _Content) -> Iterable[Cells]:
    for agent in content.results.agent_names:
        counts = content.results.count_causes(agent)
        # Rule-based agents make no calls.
        cost = content.results.costs.get(agent, AgentCost(0, 0, 0, Decimal(0), 0))
        money = float(cost.money)
        per_success = money / counts["success"] if counts["success"] else None
        yield (
            agent, counts.total(), cost.calls, cost.input_tokens, cost.output_tokens, money, cost.unknown, per_success,
        )  # fmt: skip


def _iter_fraction_rows(content: _Content) -> Iterable[Cells]:
    """Yield the shares judged sufficient by each classifier, and by majority and consensus of all or of the paper's."""
    models = content.judges
    rows = [(name, rate, "classifier", name) for name, rate in human_model.estimate_fractions(models).items()]
    if len(models) > 1:
        rows += _list_ensembles(models, human_model.MAJORITY, human_model.CONSENSUS)
        paper_panels = {tuple(entry.models or ()) for who in ENSEMBLES if (entry := paper_values.find_ensemble(who))}
        for classifiers in sorted(paper_panels):
            # If only the paper's classifiers judged, the rows above already have its ensembles.
            if set(classifiers) < set(models):
                rows += _list_ensembles({name: models[name] for name in sorted(classifiers)}, *ENSEMBLES.values())
    ensemble_keys = {label: who for who, label in ENSEMBLES.items()}
    published = paper_values.pair_with_reasons(
        paper_values.find_published_fraction(ensemble_keys.get(name, name), kind, models_of.split(", "))
        for name, _, kind, models_of in rows
    )
    for (name, rate, kind, models_of), paper in zip(rows, published, strict=True):
        yield name, kind, rate.value, rate.k, rate.n, rate.low, rate.high, models_of, *paper


def _list_ensembles(
    models: Mapping[str, Mapping[str, int]], majority: str, consensus: str
) -> list[tuple[str, Rate, str, str]]:
    verdicts = {
        majority: human_model.compute_majority(models).verdicts,
        consensus: human_model.compute_consensus(models),
    }
    rates = human_model.estimate_fractions(verdicts)
    return [(name, rate, "ensemble", ", ".join(models)) for name, rate in rates.items()]


_AGENT = Column("Agent", "the cast, including its simulator and classifier", "text")
_TASKS = Column("Experiments", "experiments that the agent attempted", "count")
_LOW = Column("Low", "lower end of the 95% interval, new experiments", "share")
_HIGH = Column("High", "upper end of the 95% interval, new experiments", "share")
_REASON = Column("Reason", "why a number or its interval is missing", "text")
_WHY_UNPUBLISHED = COLUMNS["published_reason"]
_CELLS = {
    "row": Column("Of", "a classifier", "text"),
    "col": Column("With", "another classifier", "text"),
    "value": Column("Share", "share of equal verdicts among the records both judged", "share"),
    "n": Column("Records", "records of submitted episodes both judged", "count"),
    "base": Column("Base", "records in the denominator of the share", "count"),
}


class BenchmarkTable(NamedTuple):
    """A table: its title, the function that yields its rows, its columns, and the paper's quantity of the same kind."""

    title: str
    iter_rows: Callable[[_Content], Iterable[Cells]]
    columns: Mapping[str, Column]
    quantity: str = ""

    @property
    def spec(self) -> TableSpec:
        return TableSpec(self.title, tuple(self.columns), self.columns)


# Each table is declared here only; the document, its pages, CSV files and figures follow.
TABLES: Mapping[str, BenchmarkTable] = {
    "pass_at_k": BenchmarkTable("Goals reached within k attempts", _iter_pass_rows, {
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
    "comparisons": BenchmarkTable("Agents compared on the same experiments", _iter_comparison_rows, {
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
    "tasks": BenchmarkTable("Experiments", _iter_task_rows, {
        "experiment": Column("Experiment", "the goal of the experiment", "text"),
        "agent": _AGENT,
        "n": Column("Attempts", "attempts that count; 0: every episode failed for a reason other than the agent", "count"),
        "successes": Column("Reached", "attempts that reached the goal", "count"),
    }),
    "failures": BenchmarkTable("Outcomes of episodes and causes of failure", _iter_failure_rows, {
        "agent": _AGENT,
        "cause": Column("Cause", "success, or what ended it: agent (evidence: it submitted too little), simulator, "
                        "classifier, provider, refusal, budget, wetbench", "text"),
        "said": Column("Description", "the cause as a phrase", "text"),
        "n": Column("Episodes", "episodes with this outcome", "count"),
        "share": Column("Share", "of the agent's episodes", "share"),
    }),
    "cost": BenchmarkTable("Cost", _iter_cost_rows, {
        "agent": _AGENT,
        "episodes": Column("Episodes", "episodes of the benchmark", "count"),
        "calls": Column("Calls", "calls to models, including failed ones", "count"),
        "input_tokens": Column("Tokens in", "as counted by the providers, including cached ones", "count"),
        "output_tokens": Column("Tokens out", "including reasoning", "count"),
        "cost": Column("US dollars", "known cost of these calls", "number"),
        "unknown": Column("Cost unknown", "calls of unknown cost: if there are any, the cost is a lower bound", "count"),
        "per_success": Column("Dollars per success", "cost per attempt that reached its goal", "number"),
    }),
    "fractions": BenchmarkTable("Share judged sufficient by each classifier", _iter_fraction_rows, {
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
    "agreement_matrix": BenchmarkTable(
        "Agreement of classifiers",
        lambda content: human_model.build_agreement_matrix(content.matrix_judges), _CELLS, "model_agreement",
    ),
    "conditional_matrix": BenchmarkTable("Conditional agreement of classifiers", lambda content: human_model.build_conditional_matrix(content.matrix_judges), {
        **_CELLS,
        "value": Column("Share", "share judged sufficient by the column, among records judged sufficient by the row", "share"),
        "base": Column("Base", "records judged by both and sufficient for the row", "count"),
    }, "conditional_agreement"),
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
    judges = {name: {code: int(yes) for code, yes in verdicts.items()} for name, verdicts in results.verdicts.items()}
    content = _Content(results, passes, comparisons, judges)
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
            name: build_custom_table(
                table.spec, table.iter_rows(content), notes=_list_ranges(table.quantity, content.matrix_judges)
            )
            for name, table in TABLES.items()
        },
        "notes": _list_notes(content, seed, resamples),
    }


def _compare_agents(results: BenchmarkResults, seed: int, resamples: int) -> list[Estimate]:
    """Compare every two agents in pass@1, and in pass@k with the largest k up to MOST_ATTEMPTS defined for both."""
    by_agent = {agent: results.count_attempts(agent) for agent in results.agent_names}
    comparisons = []
    for first, second in combinations(results.agent_names, 2):
        fewest = min((task.n for agent in (first, second) for task in by_agent[agent]), default=1)
        # For k above the smallest number of attempts, pass@k is undefined for one of the two agents.
        for k in sorted({1, min(max(fewest, 1), MOST_ATTEMPTS)}):
            comparisons += compare_agents(first, second, by_agent, k, seed=seed, resamples=resamples)
    return comparisons


def _list_ranges(quantity: str, models: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return the paper's values of this quantity, as sentences, if all classifiers to which they apply judged here as well."""
    entries = paper_values.iter_values(
        lambda entry: entry.quantity == quantity and set(entry.models or ()) <= set(models)
    )
    return [f"{entry.description[:-1]}, over {', '.join(entry.models or ())}." for entry in entries]


def _list_notes(content: _Content, seed: int, resamples: int) -> list[str]:
    results = content.results
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
    if any(_find_published(results, result) is not None for result in content.passes):
        notes.append(
            f"Published values are the paper's for the declared model of the agent ({paper_values.NOT_REPORTED})."
        )
    if n_failed := sum(not episode.attempt for episode in results.episodes):
        notes.append(
            f"{n_failed} episodes failed for reasons other than the agent: they are not attempts, and are listed under causes of failure."
        )
    if results.missing:
        missing_by_classifier = ", ".join(f"{name} {n}" for name, n in results.missing.items())
        notes.append(
            f"{sum(results.missing.values())} verdicts of further classifiers are missing ({missing_by_classifier}); the records are counted without them."
        )
    if len(content.judges) > 1 and (ties := human_model.compute_majority(content.judges).ties):
        notes.append(f"{ties} records without a majority among the classifiers count as not sufficient.")
    return notes
