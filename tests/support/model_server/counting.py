"""Count the server's requests, replies and tokens, for comparison with the call log."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from simulation.scripted_server.questions import Tokens


@dataclass
class RequestCounts:
    """The numbers of requests and tokens of one model or of all. Only tokens of completely sent replies count."""

    requests: int = 0
    sent: int = 0  # complete replies, errors included
    gone: int = 0  # requests whose client disconnected, or was disconnected, before the complete reply was sent
    in_flight: int = 0
    peak_in_flight: int = 0
    cost: Decimal = Decimal(0)  # reported by the OpenRouter path
    status: Counter[str] = field(default_factory=Counter)
    roles: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    tokens: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(Tokens._fields, 0)))

    def begin_request(self, role: str, fault: str) -> None:
        self.requests += 1
        self.in_flight += 1
        self.peak_in_flight = max(self.peak_in_flight, self.in_flight)  # the most requests that were in flight at once
        self.roles[role] += 1
        if fault:
            self.faults[fault] += 1

    def end_request(self, status: int | None, tokens: Tokens | None, cost: Decimal) -> None:
        """Count the end of a request. `status` is None if the client did not get the complete reply."""
        self.in_flight -= 1
        # A reply that the client did not receive must not count, since the call log does not have it either.
        if status is None:
            self.gone += 1
            return
        self.sent += 1
        self.status[str(status)] += 1
        self.cost += cost
        if tokens:
            self.tokens.update(tokens._asdict())

    def reset_totals(self) -> "RequestCounts":
        # Requests in flight continue after a reset, and their end will be counted.
        return RequestCounts(in_flight=self.in_flight, peak_in_flight=self.in_flight)

    def to_dict(self) -> dict[str, Any]:
        numbers = ("requests", "sent", "gone", "in_flight", "peak_in_flight")
        counters = ("status", "roles", "faults", "tokens")
        return {
            **{name: getattr(self, name) for name in numbers},
            **{name: dict(getattr(self, name)) for name in counters},
            "cost": str(self.cost),
        }


class CountersByModel:
    """One set of counts for each model, and one for all models together."""

    def __init__(self) -> None:
        self.total, self.models = RequestCounts(), dict[str, RequestCounts]()

    def begin_request(self, model: str, role: str, fault: str) -> None:
        for count in (self.total, self.models.setdefault(model, RequestCounts())):
            count.begin_request(role, fault)

    def end_request(self, model: str, status: int | None, tokens: Tokens | None, cost: Decimal) -> None:
        for count in (self.total, self.models.setdefault(model, RequestCounts())):
            count.end_request(status, tokens, cost)

    def reset_all(self) -> None:
        """Set all counts to zero except the number of requests in flight."""
        self.total = self.total.reset_totals()
        self.models = {name: count.reset_totals() for name, count in self.models.items()}

    def to_dict(self) -> Mapping[str, Any]:
        return {"total": self.total.to_dict(), "models": {name: c.to_dict() for name, c in self.models.items()}}
