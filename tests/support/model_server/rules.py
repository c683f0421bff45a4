"""Rules that decide which request gets which fault."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from tests.support.model_server import answer_envelope, answer_faults, bodies, deliveries, http_errors

FAULTS = frozenset(
    {*http_errors.ERRORS, *answer_faults.TEXTS, *answer_envelope.ANSWERS, *bodies.BODIES, *deliveries.DELIVERIES}
)


@dataclass
class Rule:
    """A fault and the requests that get it: every `every`-th request that matches, at most `times` in all.

    A request matches by `model`, `role` and `contains`. "" and None mean no restriction. The fields from `retry_after`
    to `variant` are parameters of particular faults.
    """

    fault: str
    model: str = ""
    role: str = ""
    contains: str = ""  # text that the prompt must contain
    every: int = 1
    times: int | None = None
    retry_after: float | None = None  # seconds in the header Retry-After
    seconds: float | None = None  # seconds between two bytes of a slow reply; delay of a late reply
    status: int | None = None  # HTTP status instead of the fault's default
    size: int | None = None  # bytes of a huge reply
    variant: str = ""
    met: int = field(default=0, init=False)
    struck: int = field(default=0, init=False)

    def matches_request(self, model: str, role: str, asked: str) -> bool:
        """Return whether this request gets the fault, and count the request if it matches."""
        if (self.model and self.model != model) or (self.role and self.role != role) or self.contains not in asked:
            return False
        # The request counts even after the last occurrence of the fault, so that `every` refers to matching requests.
        self.met += 1
        if self.met % self.every or (self.times is not None and self.struck >= self.times):
            return False
        self.struck += 1
        return True


def parse_rule(data: Mapping[str, Any] | Rule) -> Rule:
    """Return a rule from its JSON. Raises ValueError with a message that states what is allowed."""
    if isinstance(data, Rule):
        return data
    allowed = {entry.name for entry in fields(Rule) if entry.init}
    if unknown := sorted(set(data) - allowed):
        raise ValueError(f"a rule has no {unknown[0]!r}; it has {', '.join(sorted(allowed))}")
    if data.get("fault") not in FAULTS:
        raise ValueError(f"there is no fault {data.get('fault')!r}; there are {', '.join(sorted(FAULTS))}")
    # Zero would cause a division by zero at the first request.
    if not isinstance(data.get("every", 1), int) or data.get("every", 1) < 1:
        raise ValueError("every must be a whole number from 1")
    return Rule(**data)


def find_rule(rules: Iterable[Rule], model: str, role: str, asked: str) -> Rule | None:
    """Return the first rule whose fault this request gets, or None. Later rules do not count the request."""
    return next((rule for rule in rules if rule.matches_request(model, role, asked)), None)
