"""The document of a benchmark, in the form of a study's analysis: figures, tables, CSV and JSON are made from it alone."""

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

_AGENT = Column("Agent", "the cast that played; its simulator and classifier are part of it", "text")
_TASKS = Column("Experiments", "experiments the agent played", "count")
_LOW = Column("Low", "lower end of the 95% interval, new experiments", "share")
_HIGH = Column("High", "upper end of the 95% interval, new experiments", "share")
_REASON = Column("Reason", "why a number or its interval is missing", "text")
_WHY_UNPUBLISHED = tables.COLUMNS["published_reason"]
_CELLS = {
    "row": Column("Of", "a classifier", "text"),
    "col": Column("With", "another classifier", "text"),
    "value": Column("Share", "of the items both judged, those judged alike", "share"),
    "n": Column("Records", "records of submitted episodes both judged", "count"),
    "base": Column("Base", "records the share is of", "count"),
}
Rows = Iterable[Sequence[Any]]


def _form(title: str, columns: Mapping[str, Column]) -> Form:
    """A table all of whose columns are a benchmark's own."""
    return Form(title, tuple(columns), columns)


FORMS: Mapping[str, Form] = {
    "pass_at_k": _form("Goals reached within k attempts", {
        "agent": _AGENT,
        "k": Column("k", "attempts", "count"),
        "value": Column("pass@k", "mean over experiments of the chance that one of k attempts reaches the goal", "share"),
        "low": _LOW, "high": _HIGH,
        "tasks": _TASKS,
        "attempts": Column("Attempts", "attempts at them; what failed for no fault of the agent is none", "count"),
        "reason": _REASON,
        "published": Column("Published", "the paper's pass@k for the declared model of the agent", "share"),
        "published_reason": _WHY_UNPUBLISHED,
    }),
    "comparisons": _form("Agents compared on the same experiments", {
        "first": Column("First", "an agent", "text"),
        "second": Column("Second", "the agent it is compared with", "text"),
        "k": Column("k", "attempts", "count"),
        "difference": Column("Difference", "pass@k of the first less that of the second, experiments both have", "number"),
        "low": Column("Low", "lower end of its 95% interval", "number"),
        "high": Column("High", "upper end of its 95% interval", "number"),
        "p": Column("p", "two-sided: 1 less the level of the interval that just reaches 0; not corrected for many pairs", "number"),
        "mcnemar_p": Column("McNemar p", "exact, where each has one attempt at each experiment", "number"),
        "tasks": Column("Experiments", "that both have k attempts at", "count"),
        "reason": _REASON,
    }),
    "tasks": _form("Experiments", {
        "experiment": Column("Experiment", "the goal that was to be reached", "text"),
        "agent": _AGENT,
        "n": Column("Attempts", "attempts that count; 0: all its episodes failed through no doing of the agent", "count"),
        "successes": Column("Reached", "attempts that reached the goal", "count"),
    }),
    "failures": _form("What episodes came to, and whose doing a failure was", {
        "agent": _AGENT,
        "cause": Column("Cause", "success, or who ended it: agent (evidence: it submitted too little), simulator, "
                        "classifier, provider, refusal, budget, wetbench", "text"),
        "said": Column("In words", "the cause in words", "text"),
        "n": Column("Episodes", "episodes that ended so", "count"),
        "share": Column("Share", "of the agent's episodes", "share"),
    }),
    "cost": _form("What it took", {
        "agent": _AGENT,
        "episodes": Column("Episodes", "episodes of the benchmark", "count"),
        "calls": Column("Calls", "calls to models, failed ones too", "count"),
        "input_tokens": Column("Tokens in", "as the providers counted them, cached ones too", "count"),
        "output_tokens": Column("Tokens out", "reasoning included", "count"),
        "cost": Column("US dollars", "known cost of these calls", "number"),
        "unknown": Column("Cost unknown", "calls whose cost nobody knows: the money is then a lower bound", "count"),
        "per_success": Column("Dollars a success", "money for each attempt that reached its goal", "number"),
    }),
    "fractions": _form("How often each classifier says sufficient", {
        "who": Column("Classifier", "who judged; majority and all: of the classifiers", "text"),
        "kind": Column("Kind", "classifier or ensemble", "text"),
        "share": Column("Sufficient", "share of the records judged sufficient", "share"),
        "k": Column("Yes", "records judged sufficient", "count"),
        "n": Column("Judged", "records judged", "count"),
        "low": Column("Low", "lower end of the 95% Wilson interval", "share"),
        "high": Column("High", "upper end of the 95% Wilson interval", "share"),
        "models": Column("Of", "the classifiers whose verdicts it is of", "text"),
        "published": Column("Published", "the paper's share for the same classifier, or an ensemble of the same ones", "share"),
        "published_reason": _WHY_UNPUBLISHED,
    }),
    "agreement_matrix": _form("Agreement of classifiers", _CELLS),
    "conditional_matrix": _form("If one says sufficient, how often the other does", {
        **_CELLS,
        "value": Column("Share", "of the records the row calls sufficient, those the column does", "share"),
        "base": Column("Base", "records the row calls sufficient, judged by both", "count"),
    }),
}  # fmt: skip


def make(benchmark: Benchmark, found: Reading, *, seed: int = SEED, resamples: int = RESAMPLES) -> dict[str, Any]:
    """The document. The same episodes give the same bytes."""
    passes = [
        mean_pass_at_k(agent, found.attempts(agent), k) for agent in found.agents for k in range(1, MOST_ATTEMPTS + 1)
    ]
    compared = _compared(found, seed, resamples)
    panel = _verdicts(found) if len(found.verdicts) > 1 else {}
    rows: dict[str, Rows] = {
        "pass_at_k": _pass_rows(found, passes),
        "comparisons": _comparison_rows(compared),
        "tasks": [
            (task.task, agent, task.n, task.successes) for agent in found.agents for task in found.attempts(agent)
        ],
        "failures": _failures(found),
        "cost": _cost(found),
        "fractions": _fractions(found),
        "agreement_matrix": map(_cell_row, human_model.agreement_matrix(panel)),
        "conditional_matrix": map(_cell_row, human_model.conditional_matrix(panel)),
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
            "attempts": sum(one.attempt for one in found.episodes),
            "experiments": len({one.experiment for one in found.episodes}),
            "agents": len(found.agents),
            "missing_verdicts": sum(found.missing.values()),
        },
        "results": [one.to_json() for one in (*passes, *compared)],
        "tables": {
            name: tables.made(FORMS[name], own, notes=_published_ranges(name, panel)) for name, own in rows.items()
        },
        "notes": _notes(found, passes, seed, resamples),
    }


def _pass_row(one: Estimate) -> tuple[Any, ...]:
    args, n = one.args, one.n
    return args["agent"], args["k"], one.value, one.low, one.high, n["tasks"], n["attempts"], one.reason


def _pass_rows(found: Reading, passes: Sequence[Estimate]) -> list[tuple[Any, ...]]:
    published = pair_with_reasons(_find_published(found, one) for one in passes)
    return [(*_pass_row(one), *paper) for one, paper in zip(passes, published, strict=True)]


def _find_published(found: Reading, one: Estimate) -> PaperValue | None:
    """Return the paper's entry of pass@k for the agent's declared model, or None."""
    model = found.models.get(one.args["agent"])
    return find_paper_value("pass_at_k", "benchmark", model=model, role="agent", k=one.args["k"]) if model else None


def _compared(found: Reading, seed: int, resamples: int) -> list[Estimate]:
    """Every pair of agents, at one attempt and at the most that both have everywhere."""
    by_agent = {agent: found.attempts(agent) for agent in found.agents}
    results = []
    for first, second in combinations(found.agents, 2):
        least = min((task.n for agent in (first, second) for task in by_agent[agent]), default=1)
        for k in sorted({1, min(max(least, 1), MOST_ATTEMPTS)}):
            results += compare(first, second, by_agent, k, seed=seed, resamples=resamples)
    return results


def _comparison_rows(results: Sequence[Estimate]) -> list[tuple[Any, ...]]:
    values = {(one.stat, *one.args["agents"], one.args["k"]): one for one in results}
    rows = []
    for one in results:
        if one.stat != "pass_at_k_difference":
            continue
        key = (*one.args["agents"], one.args["k"])
        exact = values.get(("mcnemar_p", *key))
        p = values["pass_at_k_difference_p", *key].value
        rows.append((*key, one.value, one.low, one.high, p, exact and exact.value, one.n["tasks"], one.reason))
    return rows


def _failures(found: Reading) -> list[tuple[Any, ...]]:
    rows = []
    for agent in found.agents:
        counted = found.causes(agent)
        for cause, words in CAUSES.items():
            if counted[cause]:
                rows.append((agent, cause, words, counted[cause], counted[cause] / counted.total()))
    return rows


def _cost(found: Reading) -> list[tuple[Any, ...]]:
    rows = []
    for agent in found.agents:
        counted = found.causes(agent)
        cost = found.costs.get(agent)
        if cost is None:  # rules alone: no call was made
            rows.append((agent, counted.total(), 0, 0, 0, 0.0, 0, 0.0 if counted["success"] else None))
            continue
        money = float(cost.money)
        each = money / counted["success"] if counted["success"] else None
        taken = cost.calls, cost.input_tokens, cost.output_tokens, money, cost.unknown
        rows.append((agent, counted.total(), *taken, each))
    return rows


def _verdicts(found: Reading) -> dict[str, dict[str, int]]:
    return {name: {code: int(yes) for code, yes in own.items()} for name, own in found.verdicts.items()}


def _fractions(found: Reading) -> list[tuple[Any, ...]]:
    """Each classifier; what most of them and all of them say; the same of those alone that the paper's ensembles are of."""
    models = _verdicts(found)
    rows = [(*_share_row(one, "classifier"), one.who) for one in human_model.fractions(models)]
    if len(models) > 1:
        rows += _ensembles(models, human_model.MAJORITY, human_model.CONSENSUS)
        panels = {tuple(entry.models or ()) for who in ENSEMBLES if (entry := find_ensemble(who))}
        for panel in sorted(panels):
            if set(panel) < set(models):
                rows += _ensembles({name: models[name] for name in sorted(panel)}, *ENSEMBLES.values())
    named = {told: who for who, told in ENSEMBLES.items()}
    published = pair_with_reasons(
        find_published_fraction(named.get(row[0], row[0]), row[1], row[-1].split(", ")) for row in rows
    )
    return [(*row, *paper) for row, paper in zip(rows, published, strict=True)]


def _ensembles(models: Mapping[str, Mapping[str, int]], majority: str, consensus: str) -> list[tuple[Any, ...]]:
    together = {majority: human_model.majority(models).verdicts, consensus: human_model.consensus(models)}
    return [(*_share_row(one, "ensemble"), ", ".join(models)) for one in human_model.fractions(together)]


def _share_row(one: human_model.Fraction, kind: str) -> tuple[Any, ...]:
    return one.who, kind, one.share, one.k, one.n, one.low, one.high


def _published_ranges(name: str, models: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return what the paper prints of a matrix, where all the classifiers that it is over judged here too."""
    quantity = {"agreement_matrix": "model_agreement", "conditional_matrix": "conditional_agreement"}.get(name)
    entries = each_value(lambda entry: entry.quantity == quantity and set(entry.models or ()) <= set(models))
    return [f"{entry.description[:-1]}, over {', '.join(entry.models or ())}." for entry in entries]


def _cell_row(cell: Cell) -> tuple[Any, ...]:
    return cell.row, cell.col, cell.value, cell.n, cell.base


def _notes(found: Reading, passes: Sequence[Estimate], seed: int, resamples: int) -> list[str]:
    notes = [
        "An attempt is an episode that ended by the agent's own doing: submitted, given up, refused three times running, "
        "or out of steps. It succeeds if the cast's own classifier finds the evidence sufficient.",
        "pass@k is undefined for an agent as soon as one experiment has fewer than k attempts; it is never extrapolated.",
        "The interval of pass@k is Wilson's with the effective number of experiments; where pass@k is 0 at every "
        "experiment, or 1 at every one, it is Clopper and Pearson's.",
        f"Differences have intervals and p-values from {resamples:,} resamples of experiments, seed {seed}. Both are widened for "
        "few experiments by one rule: p is below .05 where, and only where, the 95% interval leaves 0 out.",
        "How often classifiers say sufficient has Wilson's interval, which takes the records as independent.",
    ]
    if any(_find_published(found, one) is not None for one in passes):
        notes.append(f"Published values are the paper's for the declared model of the agent ({NOT_REPORTED}).")
    if out := sum(not one.attempt for one in found.episodes):
        notes.append(f"{out} episodes failed through no doing of the agent: they are no attempts, and count below.")
    if found.missing:
        each = ", ".join(f"{name} {n}" for name, n in found.missing.items())
        notes.append(
            f"{sum(found.missing.values())} verdicts of the panel are missing ({each}); the records count without them."
        )
    models = _verdicts(found)
    if len(models) > 1 and (ties := human_model.majority(models).ties):
        notes.append(f"{ties} records without a majority among the classifiers count as not sufficient.")
    return notes
