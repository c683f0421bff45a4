"""Where the rows of a run stand, and why those ended that ended badly."""

from collections import Counter
from typing import NamedTuple

from django.db.models import Count

from simulation import causes
from simulation.models import Run
from simulation.views.standing import WORK_LEFT


class RunState(NamedTuple):
    """Where the rows of a run stand, why those ended that ended badly, and which buttons make sense."""

    by_status: dict[str, int]
    groups: list[causes.Group]
    total: int
    live: int
    held: int
    held_by_budget: int

    @property
    def ended(self) -> int:
        return self.total - self.live - self.held

    @property
    def held_otherwise(self) -> int:
        """Held for something that somebody can put right: a key, a model's options."""
        return self.held - self.held_by_budget


def run_state(run: Run) -> RunState:
    """One query."""
    rows = run.episodes if run.kind == "episodes" else run.twins
    counted = [(s, r, n) for s, r, n in rows.order_by().values_list("status", "reason").annotate(n=Count("pk"))]
    by_status: Counter[str] = Counter()
    for status, _, number in counted:
        by_status[status] += number
    return RunState(
        by_status=dict(by_status),
        groups=causes.grouped(counted),
        total=by_status.total(),
        live=sum(by_status[status] for status in WORK_LEFT),
        held=by_status["blocked"],
        held_by_budget=sum(n for status, reason, n in counted if (status, reason) == ("blocked", "budget")),
    )
