"""What a benchmark's episodes came to: attempts, causes of failure, verdicts of all classifiers, cost. Five queries."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple

from django.db.models import Count, Q, Sum

from ratings.models import Benchmark
from ratings.results.benchmarks.store import count_missing
from ratings.results.declared_models import find_agent_models
from ratings.stats.pass_at_k import Attempts
from simulation.casts import pricing
from simulation.models import EvidenceReview, ModelCall
from simulation.runs import causes

SUCCESS, UNPROVEN = "success", "evidence"
_NO_ATTEMPT = ("failed",)  # our own fault, a provider's or a model's: the agent was not put to the test
_TOKENS_IN = ("input_uncached", "cache_read", "cache_write_5m", "cache_write_1h")


class Played(NamedTuple):
    """One episode as it counts. `cause`: "success", "evidence" (submitted, and judged not to suffice), or a key of
    simulation.runs.causes. `attempt`: whether it says something about the agent."""

    code: str
    agent: str
    experiment: str
    cause: str
    attempt: bool


class Cost(NamedTuple):
    """What an agent's episodes took. `unknown`: calls whose cost nobody knows; then the money is a lower bound."""

    calls: int
    input_tokens: int
    output_tokens: int
    money: Decimal
    unknown: int


@dataclass(frozen=True)
class Reading:
    """`verdicts`: classifier -> episode code -> whether the evidence suffices; `models`: agent -> its one declared model."""

    episodes: tuple[Played, ...]
    verdicts: Mapping[str, Mapping[str, bool]]
    costs: Mapping[str, Cost]
    models: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, int] = field(default_factory=dict)  # classifier -> verdicts of the panel that it did not give

    @property
    def agents(self) -> list[str]:
        return sorted({one.agent for one in self.episodes})

    def attempts(self, agent: str) -> list[Attempts]:
        """The agent's attempts at each experiment it played, by the experiment's name; 0 where no episode is an attempt."""
        made, won = Counter[str](), Counter[str]()
        for one in self.episodes:
            if one.agent == agent:
                made[one.experiment] += one.attempt
                won[one.experiment] += one.attempt and one.cause == SUCCESS
        return [Attempts(name, made[name], won[name]) for name in sorted(made)]

    def causes(self, agent: str) -> Counter[str]:
        return Counter(one.cause for one in self.episodes if one.agent == agent)


def read(benchmark: Benchmark) -> Reading:
    """Everything the document is made of."""
    primary: dict[int, bool] = {}
    verdicts: dict[str, dict[str, bool]] = defaultdict(dict)
    reviews = EvidenceReview.objects.filter(episode__in=benchmark.episodes.values("pk")).order_by(
        "classifier", "episode"
    )
    for pk, code, classifier, first, sufficient in reviews.values_list(
        "episode_id", "episode__code", "classifier", "primary", "sufficient"
    ):
        verdicts[classifier][str(code)] = sufficient
        if first:
            primary[pk] = sufficient
    rows = benchmark.episodes.order_by("experiment__name", "cast", "replicate", "pk").values_list(
        "pk", "code", "cast", "experiment__name", "status", "reason"
    )
    episodes = tuple(
        Played(str(code), cast, experiment, _cause(status, reason, primary.get(pk)), status not in _NO_ATTEMPT)
        for pk, code, cast, experiment, status, reason in rows
    )
    return Reading(episodes, verdicts, _costs(benchmark), find_agent_models(benchmark), count_missing(benchmark))


def _cause(status: str, reason: str, sufficient: bool | None) -> str:
    if status == "submitted":
        return SUCCESS if sufficient else UNPROVEN if sufficient is False else "classifier"
    return causes.cause(status, reason)


def _costs(benchmark: Benchmark) -> dict[str, Cost]:
    """By the ledger, calls that failed included; what was spent on twins and on replaced replicates is not in it."""
    calls = ModelCall.objects.filter(episode__in=benchmark.episodes.values("pk")).order_by()
    rows = calls.values("episode__cast").annotate(
        calls=Count("pk"),
        **{name: Sum(name, default=0) for name in (*_TOKENS_IN, "output")},
        money=Sum("cost", default=Decimal(0)),
        unknown=Count("pk", filter=Q(cost__isnull=True) & ~Q(state="started")),
    )
    return {
        row["episode__cast"]: Cost(
            row["calls"],
            sum(row[name] for name in _TOKENS_IN),
            row["output"],
            pricing.money(row["money"]),
            row["unknown"],
        )
        for row in rows
    }
