"""Counts of a run's rows by status, and causes of failures."""

from collections import Counter
from typing import NamedTuple

from simulation.models import Run
from simulation.runs import create, failure_reasons
from simulation.web.episode_status import UNFINISHED

FIXABLE_REASONS = ("budget", "credentials", "bad_request")  # reasons that a person can fix


class RunState(NamedTuple):
    """The counts of a run's rows by status, causes of failures, and which buttons apply."""

    by_status: dict[str, int]
    groups: list[failure_reasons.FailureGroup]
    total: int
    live: int
    held: int
    held_by_budget: int

    @property
    def n_ended(self) -> int:
        return self.total - self.live - self.held

    @property
    def n_blocked_otherwise(self) -> int:
        """The number of rows blocked for a reason other than the budget, such as a key or a model's options."""
        return self.held - self.held_by_budget


def count_run_state(run: Run) -> RunState:
    """Return the state of a run with one query."""
    # Grouped in SQL: a run can have thousands of rows.
    counts = create.count_rows_by_status(run)
    blocked_status = (
        "failed" if run.kind == "ratings" else "blocked"
    )  # a rating job that failed for these reasons is tried again
    may_go_on = dict.fromkeys(FIXABLE_REASONS, 0)
    by_status: Counter[str] = Counter()
    for status, reason, number in counts:
        by_status[status] += number
        if status == blocked_status and reason in may_go_on:
            may_go_on[reason] += number
    return RunState(
        by_status=dict(by_status),
        groups=failure_reasons.group_failures(counts),
        total=by_status.total(),
        live=sum(by_status[status] for status in UNFINISHED),
        # Jobs of model raters have no status "blocked", so their failures are counted by reason.
        held=sum(may_go_on.values()) if run.kind == "ratings" else by_status["blocked"],
        held_by_budget=may_go_on["budget"],
    )
