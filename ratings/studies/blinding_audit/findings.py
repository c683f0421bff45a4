"""The findings of an audit: checks, each with the leaks it found."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

UNDECIDED = "not decided: too few"
OTHER_STUDIES = "items of other studies"  # the name of the check whose numbers the certificate states
DECLARED = "declared_things"  # the key of the names that people declared things in the laboratory
MAX_LISTED_LEAKS = 20  # leaks that are listed for a check; the rest are counted


class Leak(NamedTuple):
    """A place where something is visible that must be hidden, and what it is."""

    where: str
    what: str


@dataclass
class Check:
    """One question of the audit. `looked_at` is how much was examined: a check that examined nothing has not passed.

    A skipped check has neither passed nor failed: it is undecided.
    """

    name: str
    asks: str
    looked_at: int = 0
    leaks: list[Leak] = field(default_factory=list)
    measured: dict[str, Any] = field(default_factory=dict)
    # What the check could detect; nothing in it depends on which item is of which kind.
    power: dict[str, Any] = field(default_factory=dict)
    skipped: str = ""  # why this study could not be checked

    @property
    def is_undecided(self) -> bool:
        return bool(self.skipped) and not self.leaks

    @property
    def is_passed(self) -> bool:
        return not self.leaks and self.looked_at > 0 and not self.skipped

    @property
    def has_failed(self) -> bool:
        return not (self.is_passed or self.is_undecided)

    @property
    def outcome_text(self) -> str:
        return UNDECIDED if self.is_undecided else "holds" if self.is_passed else "leaks"

    def add_leaks(self, leaks: Iterable[Leak], looked_at: int = 1) -> None:
        self.looked_at += looked_at
        self.leaks.extend(leaks)

    def to_dict(self) -> dict[str, Any]:
        # The same leak is usually on many pages; it is listed once, in the order in which it was found.
        listed = list(dict.fromkeys(self.leaks))
        if self.has_failed and not listed:
            listed = [Leak(self.name, "nothing was examined, so there is no result")]
        return {
            "name": self.name,
            "asks": self.asks,
            "outcome": self.outcome_text,
            "passed": None if self.is_undecided else self.is_passed,
            "looked_at": self.looked_at,
            "skipped": self.skipped,
            "leaks": [leak._asdict() for leak in listed[:MAX_LISTED_LEAKS]],
            "leaks_in_all": len(listed),
            "power": self.power,
            "measured": self.measured,
        }


class AuditError(ValueError):
    """The study cannot be audited now. The message is shown to people; it states the reason and what to do."""
