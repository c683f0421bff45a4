"""What an audit found: checks, and under each the leaks it names."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

UNDECIDED = "not decided: too few"
OTHER_STUDIES = "items of other studies"  # the check whose measures the certificate states
DECLARED = "declared_things"  # names that people declared things in the laboratory, which the certificate lists
MOST_TOLD = 20  # leaks that one check spells out; the rest are counted


class Leak(NamedTuple):
    """Where something shows that must not, and what it is."""

    where: str
    what: str


@dataclass
class Check:
    """One question the audit asked. `looked_at` says how much was looked at: a check of nothing has not passed.

    A skipped one has neither passed nor failed: it is not decided.
    """

    name: str
    asks: str
    looked_at: int = 0
    leaks: list[Leak] = field(default_factory=list)
    measured: dict[str, Any] = field(default_factory=dict)
    power: dict[str, Any] = field(
        default_factory=dict
    )  # what the check could detect; nothing in it depends on which item is of which kind
    skipped: str = ""  # why it could not be asked of this study

    @property
    def is_undecided(self) -> bool:
        return bool(self.skipped) and not self.leaks

    @property
    def passed(self) -> bool:
        return not self.leaks and self.looked_at > 0 and not self.skipped

    @property
    def failed(self) -> bool:
        return not (self.passed or self.is_undecided)

    @property
    def outcome(self) -> str:
        return UNDECIDED if self.is_undecided else "holds" if self.passed else "leaks"

    def saw(self, leaks: Iterable[Leak], looked_at: int = 1) -> None:
        self.looked_at += looked_at
        self.leaks.extend(leaks)

    def to_json(self) -> dict[str, Any]:
        told = list(dict.fromkeys(self.leaks))
        if self.failed and not told:
            told = [Leak(self.name, "nothing was looked at, so nothing can be said")]
        return {
            "name": self.name,
            "asks": self.asks,
            "outcome": self.outcome,
            "passed": None if self.is_undecided else self.passed,
            "looked_at": self.looked_at,
            "skipped": self.skipped,
            "leaks": [leak._asdict() for leak in told[:MOST_TOLD]],
            "leaks_in_all": len(told),
            "power": self.power,
            "measured": self.measured,
        }
