"""Where the rows of a run stand, and why those ended that ended badly."""

from collections import Counter
from typing import NamedTuple

from simulation.models import Run
from simulation.runs import causes, queueing
from simulation.web.standing import WORK_LEFT

HELD = ("budget", "credentials", "bad_request")  # what somebody can put right


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
    counted = queueing.standings(run)
    held = "failed" if run.kind == "ratings" else "blocked"  # a job that failed for these is what is tried again
    may_go_on = dict.fromkeys(HELD, 0)
    by_status: Counter[str] = Counter()
    for status, reason, number in counted:
        by_status[status] += number
        if status == held and reason in may_go_on:
            may_go_on[reason] += number
    return RunState(
        by_status=dict(by_status),
        groups=causes.grouped(counted),
        total=by_status.total(),
        live=sum(by_status[status] for status in WORK_LEFT),
        held=sum(may_go_on.values()) if run.kind == "ratings" else by_status["blocked"],
        held_by_budget=may_go_on["budget"],
    )
