"""Who may write to an episode now."""

import threading
from datetime import timedelta

import pytest
from django.conf import settings
from django.db.backends.signals import connection_created
from django.utils import timezone

from simulation.leases import Lease, leases
from simulation.models import Episode, Experiment, Twin
from simulation.runs import queueing
from tests.support.steps import Away, race

pytestmark = pytest.mark.both_databases


@pytest.fixture
def episode(caffeine: Experiment) -> Episode:
    return queueing.queue_episodes([caffeine], "offline", 1, seed=1).episodes.get()


def claimed(episode: Episode) -> Lease[Episode]:
    lease = leases.claim(Episode, episode.code)
    assert lease is not None
    return lease


def lapse(episode: Episode) -> None:
    Episode.objects.filter(pk=episode.pk).update(lease_until=timezone.now() - timedelta(seconds=1))


def test_a_claimed_episode_cannot_be_claimed_again(episode: Episode) -> None:
    claimed(episode)
    assert leases.claim(Episode, episode.code) is None


def test_a_lapsed_lease_can_be_taken_over_under_a_higher_fence(episode: Episode) -> None:
    first = claimed(episode)
    lapse(episode)
    second = claimed(episode)
    assert second.fence == first.fence + 1


def test_a_worker_that_was_taken_over_writes_nothing(episode: Episode) -> None:
    zombie = claimed(episode)
    lapse(episode)
    heir = claimed(episode)
    written = []
    assert zombie.commit(lambda: written.append("step"), next_number=2) is False
    assert written == []
    assert heir.commit(next_number=2) is True
    episode.refresh_from_db()
    assert episode.next_number == 2


def test_without_the_fence_the_taken_over_worker_would_have_written(episode: Episode) -> None:
    """The control: the same story with the guard removed does the damage that the guard prevents."""
    zombie = claimed(episode)
    lapse(episode)
    claimed(episode)
    unguarded = Episode.objects.filter(pk=zombie.row.pk)
    assert unguarded.update(next_number=99) == 1


def test_what_comes_with_a_commit_is_undone_with_it(episode: Episode) -> None:
    lease = claimed(episode)

    def fail() -> None:
        Episode.objects.filter(pk=episode.pk).update(next_number=50)
        raise RuntimeError("the step could not be stored")

    with pytest.raises(RuntimeError):
        lease.commit(fail, next_number=2)
    episode.refresh_from_db()
    assert episode.next_number == 1 and episode.lease_until is not None


def test_a_step_that_loses_three_workers_in_a_row_fails_with_that_reason(episode: Episode) -> None:
    for _ in range(settings.LOST_LEASES_ALLOWED):
        claimed(episode)
        lapse(episode)
    assert leases.claim(Episode, episode.code) is None
    episode.refresh_from_db()
    assert episode.status == "failed" and episode.error.startswith("worker lost")


def test_an_illegal_move_is_refused(episode: Episode) -> None:
    lease = claimed(episode)
    with pytest.raises(ValueError, match="cannot go from running to queued"):
        lease.commit(status="queued")


@pytest.mark.parametrize("model", [Episode, Twin])
def test_every_move_leads_to_a_known_status(model: type[Episode] | type[Twin]) -> None:
    names = {name for name, _ in model.STATUSES}
    assert set(model.MOVES) == names
    assert {status for moves in model.MOVES.values() for status in moves} <= names


def test_the_lease_of_a_dead_process_of_this_machine_lapses_at_once(episode: Episode) -> None:
    claimed(episode)
    host = leases.owner_name().split(":")[0]
    Episode.objects.update(lease_owner=f"{host}:4194399:gone")  # above the highest pid Linux gives
    assert leases.expire_dead() == 1
    assert claimed(episode).row.lost_leases == 1


def test_the_lease_of_a_living_process_is_left_alone(episode: Episode) -> None:
    claimed(episode)
    assert leases.expire_dead() == 0


@pytest.mark.django_db(transaction=True)
def test_of_eight_workers_that_claim_at_once_one_gets_the_episode(episode: Episode) -> None:
    won = race(lambda: leases.claim(Episode, episode.code), 8)
    assert sum(isinstance(lease, Lease) for lease in won) == 1
    assert sum(lease is None for lease in won) == 7


@pytest.mark.django_db(transaction=True)
def test_a_lease_is_renewed_while_a_slow_call_runs(episode: Episode, settings) -> None:
    settings.HEARTBEAT_SECONDS, settings.LEASE_SECONDS = 0.05, 0.4
    lease = claimed(episode)
    with lease.kept():
        threading.Event().wait(0.8)  # twice the lease
        assert leases.claim(Episode, episode.code) is None
    assert lease.commit(next_number=2) is True


@pytest.mark.django_db(transaction=True)
def test_a_heartbeat_that_the_database_did_not_take_is_followed_by_the_next(episode: Episode, settings) -> None:
    settings.HEARTBEAT_SECONDS, settings.LEASE_SECONDS = 0.05, 0.4
    away = Away('UPDATE "simulation_episode"', times=1)

    def disturb(connection, **_signal) -> None:
        connection.execute_wrappers.append(away)

    lease = claimed(episode)
    connection_created.connect(disturb)  # meets only the heartbeat's own connection: this thread's stands already
    try:
        with lease.kept():
            threading.Event().wait(0.8)  # twice the lease
            assert leases.claim(Episode, episode.code) is None
    finally:
        connection_created.disconnect(disturb)
    assert away.times == 0
