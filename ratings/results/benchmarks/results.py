"""Load the results of a benchmark's episodes in five queries: attempts, causes of failure, verdicts of classifiers,
and costs.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple

from django.db.models import Count, Q, Sum

from ratings.models import Benchmark
from ratings.results.benchmarks.store import count_missing
from ratings.results.declared_models import find_agent_models
from ratings.stats.pass_at_k import TaskReplicates
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
