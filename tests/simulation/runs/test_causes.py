"""Causes and remedies of failures."""

import pytest

from simulation.models import REASONS, Episode, Twin
from simulation.runs import failure_reasons

GOOD = ("submitted", "done", "unsuited", "cancelled", "queued", "running", "waiting")


@pytest.mark.parametrize("reason", [reason for reason, _ in REASONS])
def test_every_reason_has_a_cause_a_description_and_a_remedy(reason: str) -> None:
    assert failure_reasons.find_cause("failed", reason) in failure_reasons.CAUSES
    assert failure_reasons.describe_reason("failed", reason) == dict(REASONS)[reason]
    assert len(failure_reasons.describe_remedy("failed", reason)) > 20


@pytest.mark.parametrize("status", sorted({*dict(Episode.STATUSES), *dict(Twin.STATUSES)} - {"failed", "blocked"}))
def test_cause_without_a_reason_follows_from_the_status(status: str) -> None:
    assert bool(failure_reasons.find_cause(status, "")) == (status not in GOOD)
    assert bool(failure_reasons.describe_remedy(status, "")) == (status not in GOOD)


@pytest.mark.parametrize(
    ("status", "reason", "cause"),
    [
        ("rejected_out", "", "agent"),
        ("failed", "invalid_transition", "simulator"),
        ("failed", "no_verdict", "classifier"),
        ("failed", "provider_unavailable", "provider"),
        ("failed", "refused", "refusal"),
        ("blocked", "budget", "budget"),
        ("failed", "worker_lost", "wetbench"),
    ],
)
def test_failure_is_attributed_to_its_cause(status: str, reason: str, cause: str) -> None:
    assert failure_reasons.find_cause(status, reason) == cause


def test_failure_groups_omit_successful_and_waiting_rows_and_are_ordered_by_cause() -> None:
    counted = [
        ("submitted", "", 9),
        ("waiting", "rate_limit", 4),
        ("failed", "worker_lost", 1),
        ("failed", "refused", 1),
        ("blocked", "credentials", 2),
        ("failed", "provider_unavailable", 3),
        ("truncated", "", 5),
    ]
    groups = failure_reasons.group_failures(counted)
    assert [(group.cause, group.key, group.number) for group in groups] == [
        ("agent", "truncated", 5),
        ("provider", "provider_unavailable", 3),
        ("provider", "credentials", 2),
        ("refusal", "refused", 1),
        ("wetbench", "worker_lost", 1),
    ]
    assert groups[3].cause_words == "a refusal" and groups[3].description == "the model refused"


def test_failure_group_includes_failed_and_blocked_rows_of_one_reason() -> None:
    # 2 blocked and 3 failed for the same reason are 5
    (group,) = failure_reasons.group_failures([("blocked", "bad_request", 2), ("failed", "bad_request", 3)])
    assert group.number == 5
