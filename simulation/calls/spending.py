"""What runs have used, as sums over the ledger of calls, and the prices it is reckoned with."""

import time
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from django.conf import settings
from django.db import transaction
from django.db.models import BigIntegerField, Count, DecimalField, F, Q, Sum, Value
from django.db.models.expressions import Case, When
from django.db.models.functions import Cast, Coalesce
from django.utils import timezone

from simulation.casts import estimating, pricing
from simulation.casts.estimating import Estimate
from simulation.casts.pricing import Price
from simulation.models import Experiment, Leased, ModelCall, ModelPrice, Run

CLASSES = ("input_uncached", "cache_read", "cache_write_5m", "cache_write_1h", "output")
RATE_WINDOW = timedelta(minutes=5)
_MONEY: "DecimalField[Any, Any]" = DecimalField(max_digits=20, decimal_places=6)
_ENDED = Q(state__in=("answered", "refused", "failed", "fenced"))
_COUNTED = Q(input_uncached__isnull=False, output__isnull=False)  # the provider said how many tokens
# Wide before they are added: two classes near the top of a column would overflow PostgreSQL's integer.
_USED = sum((Coalesce(Cast(F(name), BigIntegerField()), 0) for name in CLASSES), start=Value(0))


class Totals(NamedTuple):
    """What calls came to. Money in US dollars; tokens as the providers counted them."""

    calls: int
    started: int
    answered: int
    refused: int
    failed: int
    lost: int
    fenced: int
    input_uncached: int
    cache_read: int
    cache_write_5m: int
    cache_write_1h: int
    output: int  # reasoning included
    reasoning: int
    cost: Decimal  # of the calls whose cost is known
    unknown_cost: int  # ended calls that may have cost something, and nobody knows what
    uncounted: int  # ended calls of which the provider did not say the tokens
    lost_tokens: int  # reserved for calls that were lost with their worker: perhaps paid
    lost_cost: Decimal

    @property
    def tokens(self) -> int:
        return sum(getattr(self, name) for name in CLASSES)


class SpeakerTotals(NamedTuple):
    """What one player in one role came to."""

    role: str
    speaker: str
    model: str
    totals: Totals


class Rate(NamedTuple):
    """Calls that ended, and tokens they used, per minute over the last while."""

    calls: float
    tokens: float
    minutes: float


class Held(NamedTuple):
    """A capped run's counters beside what the ledger says they should be."""

    tokens: int
    ledger_tokens: int
    cost: Decimal
    ledger_cost: Decimal

    @property
    def agrees(self) -> bool:
        return self.tokens == self.ledger_tokens and self.cost == self.ledger_cost


class Known(NamedTuple):
    """A price as it was read, and until when it is believed (monotonic seconds)."""

    price: Price
    told: dict[str, str]
    until: float


_known: dict[tuple[str, date], Known] = {}


def recent_price(model_name: str, day: date) -> tuple[Price | None, dict[str, str]]:
    """`price_on`, as this process last read it at most PRICE_SECONDS ago: every call asks for it."""
    known = _known.get((model_name, day))
    if known is not None and time.monotonic() < known.until:
        return known.price, known.told
    price, told = price_on(model_name, day)
    if price is not None:
        _known[model_name, day] = Known(price, told, time.monotonic() + settings.PRICE_SECONDS)
    return price, told


def price_on(model_name: str, day: date) -> tuple[Price | None, dict[str, str]]:
    """The model's price on that day, and what the ledger keeps of it; None and {} if it has none by then."""
    row = ModelPrice.objects.filter(model__name=model_name, effective_from__lte=day).order_by("-effective_from").first()
    if row is None:
        return None, {}
    price = _price(row)
    told = {"model": model_name, "effective_from": row.effective_from.isoformat(), "source": row.source}
    return price, {**told, **pricing.snapshot(price)}


def tokens(counts: Mapping[str, Any]) -> int | None:
    """All tokens of a call's columns, each once; None where the provider did not count input or output."""
    if counts.get("input_uncached") is None or counts.get("output") is None:
        return None
    return sum(counts.get(name) or 0 for name in CLASSES)


def totals(run: Run) -> Totals:
    """One query, whatever the length of the run."""
    return _totals(run.calls.order_by().aggregate(**_sums()))


def of_runs(runs: Iterable[int]) -> dict[int, Totals]:
    """`totals` of many runs by their keys, one query; a run without calls is left out."""
    rows = ModelCall.objects.filter(run__in=list(runs)).order_by("run").values("run").annotate(**_sums())
    return {row["run"]: _totals(row) for row in rows}


def by_speaker(run: Run) -> list[SpeakerTotals]:
    """The same for each role and player: one query."""
    names = ("role", "speaker", "model_name")
    rows = run.calls.order_by(*names).values(*names).annotate(**_sums())
    return [SpeakerTotals(row["role"], row["speaker"], row["model_name"], _totals(row)) for row in rows]


def rate(run: Run) -> Rate | None:
    """How fast it goes now: over the last five minutes, or since its first call; None if none ended in them."""
    now = timezone.now()
    recent = run.calls.order_by().filter(ended_at__gt=now - RATE_WINDOW)
    found = recent.aggregate(n=Count("pk"), used=Sum(_USED, default=0))
    if not found["n"]:
        return None
    going = now - run.first_call_at if run.first_call_at else RATE_WINDOW
    minutes = max(min(going, RATE_WINDOW), timedelta(seconds=1)).total_seconds() / 60
    return Rate(found["n"] / minutes, found["used"] / minutes, minutes)


def estimate(setup: Mapping[str, Any], experiments: Iterable[Experiment], replicates: int) -> Estimate:
    """At worst, what that many attempts at each experiment would come to by today's prices."""
    steps = [experiment.max_steps for experiment in experiments]
    return estimating.episodes(setup, steps, replicates, prices_of(setup))


def estimate_twins(setup: Mapping[str, Any], count: int) -> Estimate:
    """At worst, what so many twins by the cast's transition model would come to by today's prices."""
    return estimating.twins(setup, count, prices_of(setup))


def estimate_ratings(setup: Mapping[str, Any], sizes: Iterable[int]) -> Estimate:
    """At worst, what ratings with prompts of these sizes (UTF-8 bytes) would come to by today's prices."""
    return estimating.ratings(setup, sizes, prices_of(setup))


def prices_of(setup: Mapping[str, Any]) -> dict[str, Price | None]:
    """Today's price of every model of a setup. A run capped in money must not start while one of them lacks a class."""
    names = setup.get("models", {})
    rows = ModelPrice.objects.filter(model__name__in=names, effective_from__lte=timezone.now().date())
    in_turn = rows.order_by("effective_from").select_related("model")  # the newest of a model comes last, and stays
    return {**dict.fromkeys(names), **{row.model.name: _price(row) for row in in_turn}}


def verify(run: Run) -> Held:
    """The counters that guard the run's budget, beside the ledger. They are kept only while the run has a cap."""
    row = Run.objects.get(pk=run.pk)
    ledger = _held(row)
    return Held(row.held_tokens, ledger["used"], pricing.money(row.held_cost), ledger["cost"])


def recount(run: Run) -> None:
    """Set the counters to what the ledger says, as when a run that had no cap gets one. Inside the run's own lock."""
    ledger = _held(run)
    Run.objects.filter(pk=run.pk).update(held_tokens=ledger["used"], held_cost=ledger["cost"])


def _price(row: ModelPrice) -> Price:
    return Price(*(getattr(row, name) for name in Price._fields))


def recount_live() -> None:
    """Set right the counters of runs with a cap and work left: a cap that came while calls were under way missed those."""
    capped = Run.objects.filter(Q(max_cost__isnull=False) | Q(max_tokens__isnull=False))
    live = Q(episodes__status__in=Leased.RUNNABLE) | Q(twins__status__in=Leased.RUNNABLE)
    live |= Q(jobs__status__in=Leased.RUNNABLE)
    for pk in capped.filter(live).order_by("pk").values_list("pk", flat=True).distinct():
        with transaction.atomic():
            recount(Run.objects.select_for_update().get(pk=pk))


def _held(run: Run) -> dict[str, Any]:
    """What is known to be used, and for every call of which it is not known, what was reserved for it."""
    used = Case(When(_COUNTED, then=_USED), default=F("reserved_tokens"), output_field=BigIntegerField())
    cost = Coalesce(F("cost"), F("reserved_cost"), Value(Decimal(0)), output_field=_MONEY)
    found = run.calls.order_by().aggregate(used=Sum(used, default=0), cost=Sum(cost, default=Decimal(0)))
    return {"used": found["used"], "cost": pricing.money(found["cost"])}


def _sums() -> dict[str, Any]:
    states = {state: Count("pk", filter=Q(state=state)) for state, _ in ModelCall.STATES}
    used = {f"sum_{name}": Sum(name, default=0) for name in (*CLASSES, "reasoning")}
    lost = Q(state="lost")
    return {
        "calls": Count("pk"),
        **states,
        **used,
        "sum_cost": Sum("cost", default=Decimal(0)),
        "unknown_cost": Count("pk", filter=_ENDED & Q(cost__isnull=True)),
        "uncounted": Count("pk", filter=_ENDED & ~_COUNTED),
        "lost_tokens": Sum("reserved_tokens", filter=lost, default=0),
        "lost_cost": Sum("reserved_cost", filter=lost, default=Decimal(0)),
    }


def _totals(row: Mapping[str, Any]) -> Totals:
    values = {name: row.get(f"sum_{name}", row.get(name)) for name in Totals._fields}
    money = {name: pricing.money(values[name]) for name in ("cost", "lost_cost")}  # SQLite sums in binary
    return Totals(**{**values, **money})
