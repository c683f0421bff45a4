"""Rules that decide which request gets which fault."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from simulation.scripted_server import answer_envelope, answer_faults, bodies, deliveries, http_errors

FAULTS = frozenset(
    {*http_errors.ERRORS, *answer_faults.TEXTS, *answer_envelope.ANSWERS, *bodies.BODIES, *deliveries.DELIVERIES}
)


@dataclass
class Rule:
    """A fault and its targets: every `every`-th request with that model, role and wording, at most `times`.

    "" and None mean no restriction. The other fields are parameters of single faults.
    """

    fault: str
    model: str = ""
    role: str = ""
    contains: str = ""  # words of the prompt
    every: int = 1
    times: int | None = None
    retry_after: float | None = None  # seconds in the header Retry-After
    seconds: float | None = None  # between two bytes of a slow reply; delay of a late reply
    status: int | None = None  # instead of the default
    size: int | None = None  # bytes of a huge reply
    variant: str = ""
    met: int = field(default=0, init=False)
    struck: int = field(default=0, init=False)

    def matches_request(self, model: str, role: str, asked: str) -> bool:
        """Return whether this request gets the fault, and count it."""
        if (self.model and self.model != model) or (self.role and self.role != role) or self.contains not in asked:
            return False
        # Counted even if the fault is used up, so that "every" refers to matching requests.
        self.met += 1
        if self.met % self.every or (self.times is not None and self.struck >= self.times):
            return False
        self.struck += 1
        return True


def parse_rule(data: Mapping[str, Any] | Rule) -> Rule:
    """Return a rule from its JSON. Raises ValueError with what is allowed."""
    if isinstance(data, Rule):
        return data
    allowed = {entry.name for entry in fields(Rule) if entry.init}
    if unknown := sorted(set(data) - allowed):
        raise ValueError(f"a rule has no {unknown[0]!r}; it has {', '.join(sorted(allowed))}")
    if data.get("fault") not in FAULTS:
        raise ValueError(f"there is no fault {data.get('fault')!r}; there are {', '.join(sorted(FAULTS))}")
    # Zero would divide by zero with the first request.
    if not isinstance(data.get("every", 1), int) or data.get("every", 1) < 1:
        raise ValueError("every must be a whole number from 1")
    return Rule(**data)


def find_rule(rules: Iterable[Rule], model: str, role: str, asked: str) -> Rule | None:
    """Return the rule for this request, or None; rules after it do not count it."""
    return next((rule for rule in rules if rule.matches_request(model, role, asked)), None)
