"""Checks of the call log: owners of calls, no answer paid for twice, and the costs."""

from collections.abc import Iterator

from django.db.models import Count, F, Max, Min, Q

from simulation.calls import call_log, run_usage
from simulation.casts import pricing
from simulation.models import CallText, Leased, ModelCall, Run
from simulation.providers.base import Usage
from wetbench_site.maintenance.verify.checks import Violation, build_check, build_violation, iter_rows

_OWNERS = ("episode", "twin", "job")
_TURN_COLUMNS = (*(f"{kind}_id" for kind in _OWNERS), "number", "role", "speaker", "turn")
_END_STATES = ("answered", "refused", "failed", "lost", "fenced")


@build_check(
    "owners of calls", "a call has the run of its episode, twin or job, and a fence that was issued", ModelCall
)
def check_call_owners() -> Iterator[Violation]:
    for kind in _OWNERS:
        calls = ModelCall.objects.order_by("pk").filter(**{f"{kind}__isnull": False})
        wrong_run = calls.exclude(run=F(f"{kind}__run"))
        for code, run in iter_rows(wrong_run.values_list("code", "run__code")):
            yield build_violation(ModelCall, code, f"the run of its {kind}", run)
        unknown_fence = calls.filter(fence__gt=F(f"{kind}__fence"))
        for code, fence, issued in iter_rows(unknown_fence.values_list("code", "fence", f"{kind}__fence")):
            yield build_violation(ModelCall, code, f"a fence up to {issued}", fence)


@build_check(
    "attempts of calls", "the attempts of a turn are numbered from 1, and no turn was answered twice", ModelCall
)
def check_call_attempts() -> Iterator[Violation]:
    answered = Count("pk", filter=Q(state__in=("answered", "refused")))
    turns = ModelCall.objects.order_by(*_TURN_COLUMNS).values(*_TURN_COLUMNS).annotate(
        n=Count("pk"), first=Min("attempt"), last=Max("attempt"), answers=answered
    )  # fmt: skip
    for turn in iter_rows(turns.exclude(first=1, last=F("n"), answers__lte=1)):
        turn_name = ".".join(str(turn[name]) for name in _TURN_COLUMNS if turn[name] is not None)
        attempts = f"{turn['n']} attempts, {turn['first']} to {turn['last']}, {turn['answers']} answered"
        yield build_violation(ModelCall, turn_name, f"attempts 1 to {turn['n']}, at most one answered", attempts)


@build_check("ends of calls", "an ended call has its time, and an answered one its reply", ModelCall)
def check_call_ends() -> Iterator[Violation]:
    has_ended = Q(state__in=_END_STATES)
    lacks_reply = Q(state__in=("answered", "refused"), reply__isnull=True) | Q(state="failed", error_class="")
    broken = ModelCall.objects.order_by("pk").filter(has_ended ^ Q(ended_at__isnull=False) | lacks_reply)
    for code, state, ended in iter_rows(broken.values_list("code", "state", "ended_at")):
        yield build_violation(
            ModelCall, code, f"{state}, with its time and its reply or error", f"ended {ended}, no reply or error"
        )


@build_check(
    "costs of calls",
    "the cost of a call is its tokens times the stored price, unless the provider reported the cost",
    ModelCall,
)
def check_call_costs() -> Iterator[Violation]:
    fields = ("code", "cost", "price", "reply", *Usage._fields)
    calls = ModelCall.objects.order_by("pk").filter(state__in=("answered", "refused", "fenced"))
    for code, cost, price, reply, *token_counts in iter_rows(calls.defer("request").values_list(*fields)):
        usage = Usage(*token_counts) if token_counts[0] is not None else None
        expected = pricing.compute_cost(usage, pricing.price_from_json(price))
        # Some providers report the cost in their reply; it is stored instead of the computed one.
        if cost != expected and b'"cost"' not in bytes(reply or b""):
            yield build_violation(ModelCall, code, f"${expected}", f"${cost}")


@build_check("budgets of runs", "the budget counters of a run equal the sums of its logged calls", Run)
def check_run_budgets() -> Iterator[Violation]:
    # A budget that was set while calls were under way is counted again by the next sweep, so runs with work left
    # are skipped.
    live = Q(episodes__status__in=Leased.RUNNABLE) | Q(twins__status__in=Leased.RUNNABLE)
    live |= Q(jobs__status__in=Leased.RUNNABLE)
    capped = Run.objects.filter(Q(max_cost__isnull=False) | Q(max_tokens__isnull=False))
    for run in iter_rows(capped.exclude(pk__in=Run.objects.filter(live).values("pk")).order_by("pk")):
        totals = run_usage.check_budget_counters(run)
        if not totals.is_consistent:
            expected = f"{totals.ledger_tokens} tokens and ${totals.ledger_cost}"
            yield build_violation(Run, run.code, expected, f"{totals.tokens} tokens and ${totals.cost}")


@build_check("texts of calls", "every text that a stored request refers to is in the text store", ModelCall)
def check_request_texts() -> Iterator[Violation]:
    known: set[str] = set()
    for code, request in iter_rows(ModelCall.objects.order_by("pk").values_list("code", "request")):
        # Requests of an episode repeat most texts, so each is queried once.
        missing = call_log.collect_hashes(request) - known
        stored = set(CallText.objects.filter(pk__in=missing).values_list("pk", flat=True)) if missing else set()
        known |= stored
        for sha in sorted(missing - stored):
            yield build_violation(ModelCall, code, f"the text {sha}", "none")


CHECKS = (
    check_call_owners,
    check_call_attempts,
    check_call_ends,
    check_call_costs,
    check_run_budgets,
    check_request_texts,
)
