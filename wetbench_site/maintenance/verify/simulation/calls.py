"""The ledger of calls: whose they are, that no answer was bought twice, and what they come to."""

from collections.abc import Iterator

from django.db.models import Count, F, Max, Min, Q

from simulation.calls import shelf, spending
from simulation.casts import pricing
from simulation.models import CallText, Leased, ModelCall, Run
from simulation.providers.base import Usage
from wetbench_site.maintenance.verify.form import Wrong, check, rows, wrong

_KINDS = ("episode", "twin", "job")
_TURN = (*(f"{kind}_id" for kind in _KINDS), "number", "role", "speaker", "turn")
_ENDED = ("answered", "refused", "failed", "lost", "fenced")


@check("owners of calls", "a call is of the run of what it was made for, under a fence that was given", ModelCall)
def owners_of_calls() -> Iterator[Wrong]:
    for kind in _KINDS:
        own = ModelCall.objects.order_by("pk").filter(**{f"{kind}__isnull": False})
        astray = own.exclude(run=F(f"{kind}__run"))
        for code, run in rows(astray.values_list("code", "run__code")):
            yield wrong(ModelCall, code, f"the run of its {kind}", run)
        ahead = own.filter(fence__gt=F(f"{kind}__fence"))
        for code, fence, given in rows(ahead.values_list("code", "fence", f"{kind}__fence")):
            yield wrong(ModelCall, code, f"a fence up to {given}", fence)


@check("attempts of calls", "the tries of a turn are numbered from 1, and no turn was answered twice", ModelCall)
def tries_of_calls() -> Iterator[Wrong]:
    answered = Count("pk", filter=Q(state__in=("answered", "refused")))
    turns = ModelCall.objects.order_by(*_TURN).values(*_TURN).annotate(
        n=Count("pk"), first=Min("attempt"), last=Max("attempt"), answers=answered
    )  # fmt: skip
    for turn in rows(turns.exclude(first=1, last=F("n"), answers__lte=1)):
        place = ".".join(str(turn[name]) for name in _TURN if turn[name] is not None)
        found = f"{turn['n']} tries, {turn['first']} to {turn['last']}, {turn['answers']} answered"
        yield wrong(ModelCall, place, f"tries 1 to {turn['n']}, at most one answered", found)


@check("ends of calls", "a call that is over says when, and one that was answered says what came", ModelCall)
def ends_of_calls() -> Iterator[Wrong]:
    over = Q(state__in=_ENDED)
    silent = Q(state__in=("answered", "refused"), reply__isnull=True) | Q(state="failed", error_class="")
    broken = ModelCall.objects.order_by("pk").filter(over ^ Q(ended_at__isnull=False) | silent)
    for code, state, ended in rows(broken.values_list("code", "state", "ended_at")):
        yield wrong(ModelCall, code, f"{state}, with its end and what came", f"ended {ended}, and nothing kept of it")


@check(
    "costs of calls",
    "what a call cost is its tokens by the price that is written beside them, unless its provider named a sum",
    ModelCall,
)
def costs_of_calls() -> Iterator[Wrong]:
    fields = ("code", "cost", "price", "reply", *Usage._fields)
    paid = ModelCall.objects.order_by("pk").filter(state__in=("answered", "refused", "fenced"))
    for code, cost, price, reply, *counts in rows(paid.defer("request").values_list(*fields)):
        usage = Usage(*counts) if counts[0] is not None else None
        expected = pricing.cost(usage, pricing.from_snapshot(price))
        if cost != expected and b'"cost"' not in bytes(reply or b""):
            yield wrong(ModelCall, code, f"${expected}", f"${cost}")


@check("budgets of runs", "the budget counters of a run say what its calls in the ledger come to", Run)
def budgets_of_runs() -> Iterator[Wrong]:
    """A cap that came while calls were under way is counted anew by the next sweep: runs with work left are not asked."""
    live = Q(episodes__status__in=Leased.RUNNABLE) | Q(twins__status__in=Leased.RUNNABLE)
    live |= Q(jobs__status__in=Leased.RUNNABLE)
    capped = Run.objects.filter(Q(max_cost__isnull=False) | Q(max_tokens__isnull=False))
    for run in rows(capped.exclude(pk__in=Run.objects.filter(live).values("pk")).order_by("pk")):
        held = spending.verify(run)
        if not held.agrees:
            expected = f"{held.ledger_tokens} tokens and ${held.ledger_cost}"
            yield wrong(Run, run.code, expected, f"{held.tokens} tokens and ${held.cost}")


@check("texts of calls", "every text that a stored request stands for is on the shelf", ModelCall)
def texts_of_calls() -> Iterator[Wrong]:
    seen: set[str] = set()
    for code, request in rows(ModelCall.objects.order_by("pk").values_list("code", "request")):
        missing = shelf.hashes(request) - seen
        found = set(CallText.objects.filter(pk__in=missing).values_list("pk", flat=True)) if missing else set()
        seen |= found
        for sha in sorted(missing - found):
            yield wrong(ModelCall, code, f"the text {sha}", "none")


CHECKS = (owners_of_calls, tries_of_calls, ends_of_calls, costs_of_calls, budgets_of_runs, texts_of_calls)
