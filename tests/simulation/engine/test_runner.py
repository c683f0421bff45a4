"""Running episodes: one unit at a time, one committed step after another."""

import itertools

import pytest
from django.db import OperationalError, connection

from simulation import leases
from simulation.engine import runner
from simulation.lab.bench import step_from_json
from simulation.models import Episode, EvidenceReview, Experiment, Transition, Twin
from simulation.runs import control, create
from tests.support.embedded_worker import run_one_unit
from tests.support.steps import DatabaseOutage, run_to_end

pytestmark = pytest.mark.both_databases


def run_episode(experiment: Experiment, cast: str = "offline", seed: int = 11) -> Episode:
    run = create.create_episode_run([experiment], cast, 1, seed=seed)
    run_to_end(run)
    return run.episodes.get()


@pytest.mark.parametrize("slug", ["caffeine-hplc-analysis", "lentivirus-moi-optimization", "zebrafish-genotyping"])
def test_reference_protocol_is_submitted_and_judged_sufficient(lab: None, slug: str) -> None:
    episode = run_episode(Experiment.objects.get(slug=slug))
    assert (episode.status, episode.error) == ("submitted", "")
    review = EvidenceReview.objects.get(episode=episode)
    assert review.sufficient, review.verdict["reasoning"]
    assert not episode.transitions.filter(accepted=False).exists()


def test_steps_have_consecutive_numbers_and_increasing_times(caffeine: Experiment) -> None:
    episode = run_episode(caffeine)
    steps = [step_from_json(step) for step in episode.transitions.values_list("step", flat=True)]
    assert [step.number for step in steps] == list(range(1, len(steps) + 1))
    assert all(a.ended_at == b.started_at for a, b in itertools.pairwise(steps))
    assert episode.next_number == len(steps) + 1


@pytest.mark.one_database
def test_equal_seeds_give_equal_episodes(caffeine: Experiment) -> None:
    first = run_episode(caffeine, "offline-lapses", seed=4)
    again = create.create_episode_run([caffeine], "offline-lapses", 1, seed=5)
    again.episodes.update(seed=first.seed, initial=first.initial)
    run_to_end(again)
    steps = [list(e.transitions.values_list("step", flat=True)) for e in (first, again.episodes.get())]
    assert steps[0] == steps[1] and len(steps[0]) > 5


def test_unit_of_work_is_one_call_and_a_step_takes_two_units(caffeine: Experiment) -> None:
    episode = create.create_episode_run([caffeine], "offline", 1, seed=1).episodes.get()
    phases = []
    for _ in range(4):
        lease = leases.claim_row(Episode, episode.code)
        assert lease is not None and runner.run_episode_unit(lease)
        episode.refresh_from_db()
        phases.append((episode.phase, Transition.objects.count()))
    assert phases == [("transition", 0), ("agent", 1), ("transition", 1), ("agent", 2)]


def test_chosen_action_survives_the_death_of_its_worker(caffeine: Experiment) -> None:
    episode = create.create_episode_run([caffeine], "offline", 1, seed=1).episodes.get()
    lease = leases.claim_row(Episode, episode.code)
    assert lease is not None and runner.run_episode_unit(lease)
    episode.refresh_from_db()
    chosen = episode.pending
    run_to_end(episode.run)
    assert episode.transitions.get(number=1).step["action"] == chosen


def test_a_stop_ends_the_episode_before_its_next_step(caffeine: Experiment) -> None:
    episode = create.create_episode_run([caffeine], "offline", 1, seed=1).episodes.get()
    lease = leases.claim_row(Episode, episode.code)
    assert lease is not None
    assert control.stop_episode(episode) is True
    assert runner.run_episode_unit(lease)
    run_to_end(episode.run)
    episode.refresh_from_db()
    assert episode.status == "cancelled" and episode.transitions.count() == 0


@pytest.mark.one_database
def test_episodes_of_a_random_agent_end_by_submission_quitting_rejections_or_the_step_limit(
    caffeine: Experiment,
) -> None:
    run = create.create_episode_run([caffeine], "offline-random", 3, seed=9)
    run_to_end(run)
    ends = set(run.episodes.values_list("status", flat=True))
    assert ends <= {"submitted", "quit", "rejected_out", "truncated"}
    assert all(e.transitions.count() <= caffeine.max_steps for e in run.episodes.all())


def test_episode_of_a_missing_cast_fails_with_a_reason(caffeine: Experiment) -> None:
    run = create.create_episode_run([caffeine], "offline", 1, seed=1)
    Episode.objects.update(cast="no-such-cast")
    run_to_end(run)
    episode = run.episodes.get()
    assert episode.status == "failed" and "Rule-based casts: offline" in episode.error


@pytest.mark.one_database
def test_twins_differ_from_their_original_and_describe_the_error(caffeine: Experiment) -> None:
    episode = run_episode(caffeine)
    run = create.create_twin_run(episode.transitions.all(), ["obvious", "subtle"], seed=1)
    run_to_end(run)
    done = Twin.objects.filter(status="done").select_related("transition")
    assert done.filter(perturbation="obvious").exists() and done.filter(perturbation="subtle").exists()
    for twin in done:
        assert twin.outcome != twin.transition.step["outcome"]
        assert twin.kind and twin.rule and twin.field and twin.explanation
        assert "SECRET" not in str(twin.outcome)
    assert set(Twin.objects.values_list("status", flat=True)) <= {"done", "unsuited"}


def test_episode_of_a_reloaded_experiment_fails_and_a_retry_uses_the_new_version(
    caffeine: Experiment,
) -> None:
    run = create.create_episode_run([caffeine], "offline", 1, seed=1)
    assert run_one_unit("episode", run.episodes.get().code)
    Experiment.objects.update(sha256="1" * 64)
    run_to_end(run)
    episode = run.episodes.get()
    assert episode.status == "failed" and "has changed since this episode was created" in episode.error
    create.retry_episode(episode)
    run_to_end(run)
    assert run.episodes.get(counts=True).status == "submitted"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("beginning", ['INSERT INTO "simulation_transition"', 'SELECT "simulation_catalogueentry"'])
def test_database_outage_does_not_fail_the_episode(caffeine: Experiment, beginning: str) -> None:
    episode = create.create_episode_run([caffeine], "offline", 1, seed=1).episodes.get()
    assert run_one_unit("episode", episode.code)
    with connection.execute_wrapper(DatabaseOutage(beginning, times=1)), pytest.raises(OperationalError):
        run_one_unit("episode", episode.code)
    episode.refresh_from_db()
    assert (episode.status, episode.lease_until, episode.lost_leases, episode.phase) == (
        "running",
        None,
        0,
        "transition",
    )
    Episode.objects.update(not_before=None)
    run_to_end(episode.run)
    episode.refresh_from_db()
    assert episode.status == "submitted"
    assert episode.transitions.count() == episode.next_number - 1


@pytest.mark.django_db(transaction=True)
def test_database_outage_does_not_fail_the_twin(caffeine: Experiment) -> None:
    episode = run_episode(caffeine)
    twin = create.create_twin_run(episode.transitions.filter(number=1), ["obvious"], seed=1).twins.get()
    with (
        connection.execute_wrapper(DatabaseOutage('SELECT "simulation_transition"."id"', times=1)),
        pytest.raises(OperationalError),
    ):
        run_one_unit("twin", twin.code)
    twin.refresh_from_db()
    assert (twin.status, twin.error, twin.lease_until) == ("running", "", None)


@pytest.mark.django_db(transaction=True)
def test_twin_is_released_and_created_later_after_an_outage_at_its_last_write(caffeine: Experiment) -> None:
    episode = run_episode(caffeine)
    run = create.create_twin_run(episode.transitions.filter(number=2), ["obvious"], seed=1)
    lease = leases.claim_row(Twin, run.twins.get().code)
    assert lease is not None
    with connection.execute_wrapper(DatabaseOutage('UPDATE "simulation_twin"', 1)), pytest.raises(OperationalError):
        runner.run_twin_unit(lease)
    twin = run.twins.get()
    assert (twin.status, twin.lease_until, twin.lost_leases) == ("running", None, 0)
    twin.not_before = None
    twin.save(update_fields=["not_before"])
    run_to_end(run)
    assert run.twins.get().status == "done"
