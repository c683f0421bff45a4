"""What an audit found: checks, and under each the leaks it names."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

MOST_TOLD = 20  # leaks that one check spells out; the rest are counted


class Leak(NamedTuple):
    """Where something shows that must not, and what it is."""

    where: str
    what: str


@dataclass
class Check:
    """One question the audit asked. `looked_at` says how much was looked at: a check of nothing has not passed."""

    name: str
    asks: str
    looked_at: int = 0
    leaks: list[Leak] = field(default_factory=list)
    measured: dict[str, Any] = field(default_factory=dict)
    skipped: str = ""  # why it could not be asked of this study

    @property
    def passed(self) -> bool:
        return not self.leaks and (self.looked_at > 0 or bool(self.skipped))

    def saw(self, leaks: Iterable[Leak], looked_at: int = 1) -> None:
        self.looked_at += looked_at
        self.leaks.extend(leaks)

    def to_json(self) -> dict[str, Any]:
        told = list(dict.fromkeys(self.leaks))
        if not self.passed and not told:
            told = [Leak(self.name, "nothing was looked at, so nothing can be said")]
        return {
            "name": self.name,
            "asks": self.asks,
            "passed": self.passed,
            "looked_at": self.looked_at,
            "skipped": self.skipped,
            "leaks": [leak._asdict() for leak in told[:MOST_TOLD]],
            "leaks_in_all": len(told),
            "measured": self.measured,
        }
