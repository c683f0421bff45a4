"""Which fault strikes which request."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from simulation.scripted_server import bodies, deliveries, refusals, spoiling, turns

FAULTS = frozenset({*refusals.ERRORS, *spoiling.TEXTS, *turns.ANSWERS, *bodies.BODIES, *deliveries.DELIVERIES})


@dataclass
class Rule:
    """A fault and what it strikes: every `every`-th request of that model, role and wording, at most `times` in all.

    "" and None strike without limit. The rest is for the faults that have use for it.
    """

    fault: str
    model: str = ""
    role: str = ""
    contains: str = ""  # words of the prompt
    every: int = 1
    times: int | None = None
    retry_after: float | None = None  # seconds in the header Retry-After
    seconds: float | None = None  # between two bytes of what drips; how late what is late comes
    status: int | None = None  # instead of the fault's own
    size: int | None = None  # bytes of what is huge
    variant: str = ""
    met: int = field(default=0, init=False)
    struck: int = field(default=0, init=False)

    def strikes(self, model: str, role: str, asked: str) -> bool:
        """Whether this request is struck. It is counted in any case."""
        if (self.model and self.model != model) or (self.role and self.role != role) or self.contains not in asked:
            return False
        self.met += 1
        if self.met % self.every or (self.times is not None and self.struck >= self.times):
            return False
        self.struck += 1
        return True


def read(data: Mapping[str, Any] | Rule) -> Rule:
    """A rule of its JSON. ValueError that says what is allowed."""
    if isinstance(data, Rule):
        return data
    known = {entry.name for entry in fields(Rule) if entry.init}
    if unknown := sorted(set(data) - known):
        raise ValueError(f"a rule has no {unknown[0]!r}; it has {', '.join(sorted(known))}")
    if data.get("fault") not in FAULTS:
        raise ValueError(f"there is no fault {data.get('fault')!r}; there are {', '.join(sorted(FAULTS))}")
    if not isinstance(data.get("every", 1), int) or data.get("every", 1) < 1:
        raise ValueError("every must be a whole number from 1")
    return Rule(**data)


def first(rules: Iterable[Rule], model: str, role: str, asked: str) -> Rule | None:
    """The rule that strikes this request; rules behind it do not count it."""
    return next((rule for rule in rules if rule.strikes(model, role, asked)), None)
