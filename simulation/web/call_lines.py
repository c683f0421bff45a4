"""Rows of a list of calls, and their total cost."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import NamedTuple

from django.db.models import QuerySet

from simulation.models import ModelCall

INPUTS = ("input_uncached", "cache_read", "cache_write_5m", "cache_write_1h")
_TONES = {"started": "info", "answered": "", "refused": "warn", "failed": "danger", "lost": "danger", "fenced": "warn"}
_SHORT = {"lost": "lost", "fenced": "too late"}
# Texts of calls can be megabytes; a list shows none of them.
_LONG = ("request", "reply", "reply_headers", "effective_params", "dropped_params", "price", "error")


class CallRow(NamedTuple):
    """A call in a list. Tokens and cost are None if not reported."""

    call: ModelCall
    what: str
    which: str
    state: str
    tone: str
    tokens_in: int | None
    tokens_out: int | None
    cost: Decimal | None
    seconds: float | None


class CallGroup(NamedTuple):
    """Calls that belong together: their totals, and how many have an unknown cost."""

    lines: Sequence[CallRow]
    tokens: int
    cost: Decimal
    unknown: int


def defer_texts(rows: QuerySet[ModelCall]) -> QuerySet[ModelCall]:
    """Return the rows without their text columns."""
    return rows.defer(*_LONG)


def make_call_row(row: ModelCall) -> CallRow:
    """Return the row of a call, without a query."""
    return CallRow(
        call=row,
        what=f"{row.get_role_display()}: {row.purpose}",
        which=_describe_attempt(row),
        state=_SHORT.get(row.state, row.get_state_display()),
        tone=_TONES[row.state],
        tokens_in=_sum_known(getattr(row, name) for name in INPUTS),
        tokens_out=row.output,
        cost=row.cost,
        seconds=None if row.milliseconds is None else row.milliseconds / 1000,
    )


def group_calls(rows: Iterable[ModelCall]) -> CallGroup:
    lines = [make_call_row(row) for row in rows]
    return CallGroup(
        lines,
        sum((line.tokens_in or 0) + (line.tokens_out or 0) for line in lines),
        sum((line.cost for line in lines if line.cost is not None), Decimal(0)),
        # Calls in progress have no cost yet, so they are not unknown.
        sum(1 for line in lines if line.cost is None and line.call.state != "started"),
    )


def group_by_step(rows: Iterable[ModelCall]) -> dict[int, CallGroup]:
    """Return the calls of agent and transition model by step number."""
    by_number: dict[int, list[ModelCall]] = defaultdict(list)
    for row in rows:
        if row.role in ("agent", "transition"):
            by_number[row.number].append(row)
    return {number: group_calls(calls) for number, calls in sorted(by_number.items())}


def _describe_attempt(row: ModelCall) -> str:
    """Return the turn and the attempt, unless both are the first."""
    parts = [f"turn {row.turn + 1}"] if row.turn else []
    return ", ".join(parts + ([f"attempt {row.attempt}"] if row.attempt > 1 else []))


def _sum_known(counts: Iterable[int | None]) -> int | None:
    # None instead of zero: a call without usage is not free.
    values = [count for count in counts if count is not None]
    return sum(values) if values else None
