"""The document of a benchmark, in the format of a study's analysis. Figures, tables, CSV and JSON are built from it alone."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

from ratings.models import Benchmark
from ratings.results.analyses import tables
from ratings.results.analyses.document import made_with
from ratings.results.analyses.tables import Column, Form
from ratings.results.benchmarks import FORM, RESAMPLES, SEED
from ratings.results.benchmarks.reading import Reading
from ratings.results.paper_values import (
    ENSEMBLES,
    NOT_REPORTED,
    PaperValue,
    each_value,
    find_ensemble,
    find_paper_value,
    find_published_fraction,
    pair_with_reasons,
)
from ratings.stats import Estimate, human_model
from ratings.stats.human_model import Cell
from ratings.stats.pass_at_k import compare, mean_pass_at_k
from simulation.runs import causes

MOST_ATTEMPTS = 5
CAUSES = {
    "success": "reached the goal, evidence sufficient",
    "evidence": "submitted, evidence not sufficient",
    **{key: f"ended by {words}" for key, words in causes.CAUSES.items()},
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


def _form(title: str, columns: Mapping[str, Column]) -> Form:
    """Return the specification of a table whose columns are all its own."""
    return Form(title, tuple(columns), columns)


FORMS: Mapping[str, Form] = {
    "pass_at_k": _form("Goals reached within k attempts", {
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
    "comparisons": _form("Agents compared on the same experiments", {
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
    "tasks": _form("Experiments", {
        "experiment": Column("Experiment", "the goal of the experiment", "text"),
        "agent": _AGENT,
        "n": Column("Attempts", "attempts that count; 0: every episode failed for a reason other than the agent", "count"),
        "successes": Column("Reached", "attempts that reached the goal", "count"),
    }),
    "failures": _form("Outcomes of episodes and causes of failure", {
        "agent": _AGENT,
        "cause": Column("Cause", "success, or what ended it: agent (evidence: it submitted too little), simulator, "
                        "classifier, provider, refusal, budget, wetbench", "text"),
        "said": Column("Description", "the cause as a phrase", "text"),
        "n": Column("Episodes", "episodes with this outcome", "count"),
        "share": Column("Share", "of the agent's episodes", "share"),
    }),
    "cost": _form("Cost", {
        "agent": _AGENT,
        "episodes": Column("Episodes", "episodes of the benchmark", "count"),
        "calls": Column("Calls", "calls to models, including failed ones", "count"),
        "input_tokens": Column("Tokens in", "as counted by the providers, including cached ones", "count"),
        "output_tokens": Column("Tokens out", "including reasoning", "count"),
        "cost": Column("US dollars", "known cost of these calls", "number"),
        "unknown": Column("Cost unknown", "calls of unknown cost: if there are any, the cost is a lower bound", "count"),
        "per_success": Column("Dollars per success", "cost per attempt that reached its goal", "number"),
    }),
    "fractions": _form("Share judged sufficient by each classifier", {
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
    "agreement_matrix": _form("Agreement of classifiers", _CELLS),
    "conditional_matrix": _form("Conditional agreement of classifiers", {
        **_CELLS,
        "value": Column("Share", "share judged sufficient by the column, among records judged sufficient by the row", "share"),
        "base": Column("Base", "records judged by both and sufficient for the row", "count"),
    }),
}  # fmt: skip


def make(benchmark: Benchmark, found: Reading, *, seed: int = SEED, resamples: int = RESAMPLES) -> dict[str, Any]:
    """Return the document. The same episodes give the same bytes."""
    passes = [
        mean_pass_at_k(agent, found.attempts(agent), k) for agent in found.agents for k in range(1, MOST_ATTEMPTS + 1)
    ]
    comparisons = _compared(found, seed, resamples)
    # With a single classifier the matrices stay empty: it has nothing to agree with.
    verdicts_by_classifier = _verdicts(found) if len(found.verdicts) > 1 else {}
    rows_by_table: dict[str, Rows] = {
        "pass_at_k": _pass_rows(found, passes),
        "comparisons": _comparison_rows(comparisons),
        "tasks": [
            (task.task, agent, task.n, task.successes) for agent in found.agents for task in found.attempts(agent)
        ],
        "failures": _failures(found),
        "cost": _cost(found),
        "fractions": _fractions(found),
        "agreement_matrix": map(_cell_row, human_model.agreement_matrix(verdicts_by_classifier)),
        "conditional_matrix": map(_cell_row, human_model.conditional_matrix(verdicts_by_classifier)),
    }
    return {
        "version": FORM,
        "subject": {"benchmark": str(benchmark.code), "name": benchmark.name, "note": benchmark.note},
        "words": {"yes": "sufficient", "no": "not sufficient"},
        "made_with": made_with(),
        "seed": seed,
        "resamples": resamples,
        "full": True,
        "data": {
            "sha256": benchmark.sha256,
            "episodes": len(found.episodes),
            "attempts": sum(episode.attempt for episode in found.episodes),
            "experiments": len({episode.experiment for episode in found.episodes}),
            "agents": len(found.agents),
            "missing_verdicts": sum(found.missing.values()),
        },
        "results": [result.to_json() for result in (*passes, *comparisons)],
        "tables": {
            name: tables.made(FORMS[name], table_rows, notes=_published_ranges(name, verdicts_by_classifier))
            for name, table_rows in rows_by_table.items()
        },
        "notes": _notes(found, passes, seed, resamples),
    }


def _pass_row(one: Estimate) -> tuple[Any, ...]:
    args, n = one.args, one.n
    return args["agent"], args["k"], one.value, one.low, one.high, n["tasks"], n["attempts"], one.reason


def _pass_rows(found: Reading, passes: Sequence[Estimate]) -> list[tuple[Any, ...]]:
    published = pair_with_reasons(_find_published(found, result) for result in passes)
    return [(*_pass_row(result), *paper) for result, paper in zip(passes, published, strict=True)]


def _find_published(found: Reading, one: Estimate) -> PaperValue | None:
    """Return the paper's pass@k for the agent's declared model, or None."""
    model = found.models.get(one.args["agent"])
    return find_paper_value("pass_at_k", "benchmark", model=model, role="agent", k=one.args["k"]) if model else None


def _compared(found: Reading, seed: int, resamples: int) -> list[Estimate]:
    """Return the comparison of every pair of agents, at one attempt and at the most that both have everywhere."""
    by_agent = {agent: found.attempts(agent) for agent in found.agents}
    comparisons = []
    for first, second in combinations(found.agents, 2):
        fewest = min((task.n for agent in (first, second) for task in by_agent[agent]), default=1)
        # Above the fewest attempts pass@k is undefined for one of the two.
        for k in sorted({1, min(max(fewest, 1), MOST_ATTEMPTS)}):
            comparisons += compare(first, second, by_agent, k, seed=seed, resamples=resamples)
    return comparisons


def _comparison_rows(results: Sequence[Estimate]) -> list[tuple[Any, ...]]:
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


def _failures(found: Reading) -> list[tuple[Any, ...]]:
    rows = []
    for agent in found.agents:
        causes_of_agent = found.causes(agent)
        for cause, phrase in CAUSES.items():
            if causes_of_agent[cause]:
                rows.append(
                    (agent, cause, phrase, causes_of_agent[cause], causes_of_agent[cause] / causes_of_agent.total())
                )
    return rows


def _cost(found: Reading) -> list[tuple[Any, ...]]:
    rows = []
    for agent in found.agents:
        causes_of_agent = found.causes(agent)
        cost = found.costs.get(agent)
        if cost is None:  # rule-based agents make no calls
            rows.append((agent, causes_of_agent.total(), 0, 0, 0, 0.0, 0, 0.0 if causes_of_agent["success"] else None))
            continue
        money = float(cost.money)
        per_success = money / causes_of_agent["success"] if causes_of_agent["success"] else None
        usage = cost.calls, cost.input_tokens, cost.output_tokens, money, cost.unknown
        rows.append((agent, causes_of_agent.total(), *usage, per_success))
    return rows


def _verdicts(found: Reading) -> dict[str, dict[str, int]]:
    return {name: {code: int(yes) for code, yes in verdicts.items()} for name, verdicts in found.verdicts.items()}


def _fractions(found: Reading) -> list[tuple[Any, ...]]:
    """Return the share of each classifier, of their majority and consensus, and of the ensembles of the paper's classifiers."""
    models = _verdicts(found)
    rows = [(*_share_row(fraction, "classifier"), fraction.who) for fraction in human_model.fractions(models)]
    if len(models) > 1:
        rows += _ensembles(models, human_model.MAJORITY, human_model.CONSENSUS)
        paper_panels = {tuple(entry.models or ()) for who in ENSEMBLES if (entry := find_ensemble(who))}
        for classifiers in sorted(paper_panels):
            # If exactly the paper's classifiers judged, the rows above already are its ensembles.
            if set(classifiers) < set(models):
                rows += _ensembles({name: models[name] for name in sorted(classifiers)}, *ENSEMBLES.values())
    ensemble_keys = {label: who for who, label in ENSEMBLES.items()}
    published = pair_with_reasons(
        find_published_fraction(ensemble_keys.get(row[0], row[0]), row[1], row[-1].split(", ")) for row in rows
    )
    return [(*row, *paper) for row, paper in zip(rows, published, strict=True)]


def _ensembles(models: Mapping[str, Mapping[str, int]], majority: str, consensus: str) -> list[tuple[Any, ...]]:
    ensemble_verdicts = {majority: human_model.majority(models).verdicts, consensus: human_model.consensus(models)}
    return [
        (*_share_row(fraction, "ensemble"), ", ".join(models)) for fraction in human_model.fractions(ensemble_verdicts)
    ]


def _share_row(one: human_model.Fraction, kind: str) -> tuple[Any, ...]:
    return one.who, kind, one.share, one.k, one.n, one.low, one.high


def _published_ranges(name: str, models: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return what the paper prints about a matrix, if all its classifiers judged here as well."""
    quantity = {"agreement_matrix": "model_agreement", "conditional_matrix": "conditional_agreement"}.get(name)
    entries = each_value(lambda entry: entry.quantity == quantity and set(entry.models or ()) <= set(models))
    return [f"{entry.description[:-1]}, over {', '.join(entry.models or ())}." for entry in entries]


def _cell_row(cell: Cell) -> tuple[Any, ...]:
    return cell.row, cell.col, cell.value, cell.n, cell.base


def _notes(found: Reading, passes: Sequence[Estimate], seed: int, resamples: int) -> list[str]:
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
    if any(_find_published(found, result) is not None for result in passes):
        notes.append(f"Published values are the paper's for the declared model of the agent ({NOT_REPORTED}).")
    if n_failed := sum(not episode.attempt for episode in found.episodes):
        notes.append(
            f"{n_failed} episodes failed for reasons other than the agent: they are not attempts, and are listed under causes of failure."
        )
    if found.missing:
        missing_by_classifier = ", ".join(f"{name} {n}" for name, n in found.missing.items())
        notes.append(
            f"{sum(found.missing.values())} verdicts of further classifiers are missing ({missing_by_classifier}); the records are counted without them."
        )
    models = _verdicts(found)
    if len(models) > 1 and (ties := human_model.majority(models).ties):
        notes.append(f"{ties} records without a majority among the classifiers count as not sufficient.")
    return notes
