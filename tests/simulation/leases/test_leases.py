"""Leases: claims, fences, takeovers and heartbeats."""

import threading
from datetime import timedelta

import pytest
from django.conf import settings
from django.db.backends.signals import connection_created
from django.utils import timezone

from simulation import leases
from simulation.leases import Lease
from simulation.models import Episode, Experiment, Twin
from simulation.runs import create
from tests.support.steps import DatabaseOutage, run_concurrently

pytestmark = pytest.mark.both_databases


@pytest.fixture
def episode(caffeine: Experiment) -> Episode:
    return create.create_episode_run([caffeine], "offline", 1, seed=1).episodes.get()


def claim_episode(episode: Episode) -> Lease[Episode]:
    lease = leases.claim_row(Episode, episode.code)
    assert lease is not None
    return lease


def expire_lease(episode: Episode) -> None:
    Episode.objects.filter(pk=episode.pk).update(lease_until=timezone.now() - timedelta(seconds=1))


def test_a_claimed_episode_cannot_be_claimed_again(episode: Episode) -> None:
    claim_episode(episode)
    assert leases.claim_row(Episode, episode.code) is None


def test_expired_lease_can_be_claimed_under_a_higher_fence(episode: Episode) -> None:
    first = claim_episode(episode)
    expire_lease(episode)
    second = claim_episode(episode)
    assert second.fence == first.fence + 1


def test_commit_under_an_old_fence_writes_nothing(episode: Episode) -> None:
    stale = claim_episode(episode)
    expire_lease(episode)
    current = claim_episode(episode)
    writes = []
    assert stale.commit_changes(lambda: writes.append("step"), next_number=2) is False
    assert writes == []
    assert current.commit_changes(next_number=2) is True
    episode.refresh_from_db()
    assert episode.next_number == 2


def test_control_stale_worker_can_write_without_the_fence(episode: Episode) -> None:
    """Control: without the condition on the fence, the stale worker's write succeeds."""
    stale = claim_episode(episode)
    expire_lease(episode)
    claim_episode(episode)
    unguarded = Episode.objects.filter(pk=stale.row.pk)
    assert unguarded.update(next_number=99) == 1


def test_further_write_in_a_commit_is_rolled_back_if_the_commit_fails(episode: Episode) -> None:
    lease = claim_episode(episode)

    def fail() -> None:
        Episode.objects.filter(pk=episode.pk).update(next_number=50)
        raise RuntimeError("the step could not be stored")

    with pytest.raises(RuntimeError):
        lease.commit_changes(fail, next_number=2)
    episode.refresh_from_db()
    assert episode.next_number == 1 and episode.lease_until is not None


def test_row_that_loses_three_workers_in_a_row_fails_with_that_reason(episode: Episode) -> None:
    for _ in range(settings.LOST_LEASES_ALLOWED):
        claim_episode(episode)
        expire_lease(episode)
    assert leases.claim_row(Episode, episode.code) is None
    episode.refresh_from_db()
    assert episode.status == "failed" and episode.error.startswith("worker lost")


def test_death_by_a_reboot_of_the_machine_does_not_count(episode: Episode, monkeypatch: pytest.MonkeyPatch) -> None:
    claim_episode(episode)
    expire_lease(episode)
    monkeypatch.setattr(leases, "compute_boot_time", timezone.now)
    assert claim_episode(episode).row.lost_leases == 0
    # Another machine's worker may have died of the row: its reboots are not known here.
    Episode.objects.update(lease_owner="elsewhere:1:token")
    expire_lease(episode)
    assert claim_episode(episode).row.lost_leases == 1


def test_boot_time_is_in_the_past_and_does_not_move() -> None:
    first, second = leases.compute_boot_time(), leases.compute_boot_time()
    assert first < timezone.now() and abs(second - first) < timedelta(seconds=1)


def test_one_death_is_forgotten_with_the_next_committed_unit(episode: Episode) -> None:
    claim_episode(episode)
    expire_lease(episode)
    claim_episode(episode).commit_changes(next_number=2)
    for _ in range(settings.LOST_LEASES_ALLOWED - 1):
        claim_episode(episode)
        expire_lease(episode)
    assert claim_episode(episode).row.status == "running"


def test_commit_refuses_an_illegal_status_change(episode: Episode) -> None:
    lease = claim_episode(episode)
    with pytest.raises(ValueError, match="cannot change from running to queued"):
        lease.commit_changes(status="queued")


@pytest.mark.parametrize("model", [Episode, Twin])
def test_every_status_change_leads_to_a_known_status(model: type[Episode] | type[Twin]) -> None:
    names = {name for name, _ in model.STATUSES}
    assert set(model.MOVES) == names
    assert {status for moves in model.MOVES.values() for status in moves} <= names


def test_lease_of_a_dead_process_on_this_machine_expires_at_once(episode: Episode) -> None:
    claim_episode(episode)
    host = leases.owner_name().split(":")[0]
    Episode.objects.update(lease_owner=f"{host}:4194399:gone")  # above the highest pid Linux gives
    assert leases.expire_dead_leases() == 1
    assert claim_episode(episode).row.lost_leases == 1


def test_lease_of_a_running_process_does_not_expire(episode: Episode) -> None:
    claim_episode(episode)
    assert leases.expire_dead_leases() == 0


@pytest.mark.django_db(transaction=True)
def test_claim_by_eight_workers_at_once_succeeds_for_one(episode: Episode) -> None:
    results = run_concurrently(lambda: leases.claim_row(Episode, episode.code), 8)
    assert sum(isinstance(lease, Lease) for lease in results) == 1
    assert sum(lease is None for lease in results) == 7


@pytest.mark.django_db(transaction=True)
def test_a_lease_is_renewed_while_a_slow_call_runs(episode: Episode, settings) -> None:
    settings.HEARTBEAT_SECONDS, settings.LEASE_SECONDS = 0.05, 0.4
    lease = claim_episode(episode)
    with lease.keep_renewed():
        threading.Event().wait(0.8)  # twice the lease
        assert leases.claim_row(Episode, episode.code) is None
    assert lease.commit_changes(next_number=2) is True


@pytest.mark.django_db(transaction=True)
def test_heartbeat_that_fails_is_repeated(episode: Episode, settings) -> None:
    settings.HEARTBEAT_SECONDS, settings.LEASE_SECONDS = 0.05, 0.4
    outage = DatabaseOutage('UPDATE "simulation_episode"', times=1)

    def disturb(connection, **_signal) -> None:
        connection.execute_wrappers.append(outage)

    lease = claim_episode(episode)
    connection_created.connect(disturb)  # affects only the heartbeat's connection: this thread is connected already
    try:
        with lease.keep_renewed():
            threading.Event().wait(0.8)  # twice the lease
            assert leases.claim_row(Episode, episode.code) is None
    finally:
        connection_created.disconnect(disturb)
    assert outage.times == 0
