"""Creating runs and their rows."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from simulation.casts.run_config import UnknownCastError
from simulation.models import Episode, Experiment, Transition, Twin
from simulation.runs import benches, control, create
from tests.support.steps import run_concurrently, run_to_end

pytestmark = pytest.mark.both_databases


def test_second_run_adds_the_next_replicates(caffeine: Experiment) -> None:
    create.create_episode_run([caffeine], "offline", 2)
    create.create_episode_run([caffeine], "offline", 3)
    assert sorted(Episode.objects.values_list("replicate", flat=True)) == [1, 2, 3, 4, 5]


def test_same_submission_id_creates_one_run(caffeine: Experiment) -> None:
    first = create.create_episode_run([caffeine], "offline", 2, submission_id="click")
    again = create.create_episode_run([caffeine], "offline", 2, submission_id="click")
    assert first == again and Episode.objects.count() == 2


def test_the_same_seed_gives_the_same_episodes_and_barcodes(caffeine: Experiment) -> None:
    first = create.create_episode_run([caffeine], "offline", 1, seed=5).episodes.get()
    Episode.objects.all().delete()
    again = create.create_episode_run([caffeine], "offline", 1, seed=5).episodes.get()
    assert (first.seed, first.initial) == (again.seed, again.initial)


def test_replicates_of_all_casts_and_seeds_have_the_same_truths_and_their_own_noise(caffeine: Experiment) -> None:
    first = create.create_episode_run([caffeine], "offline", 2, seed=5, truths="validation")
    second = create.create_episode_run([caffeine], "offline-random", 2, seed=6, truths="validation")
    truths = [[(row.truth_seed, row.truth) for row in run.episodes.order_by("replicate")] for run in (first, second)]
    assert truths[0] == truths[1] and [seed for seed, _ in truths[0]] == [1_000_000, 1_000_001]
    assert truths[0][0][1] != truths[0][1][1]
    assert not {row.seed for row in first.episodes.all()} & {row.seed for row in second.episodes.all()}
    # A retry repeats the replicate, so it has its truth too.
    control.stop_episode(first.episodes.get(replicate=2))
    retried = create.retry_episode(first.episodes.get(replicate=2))
    assert (retried.truth_seed, retried.truth) == truths[0][1]


def test_episode_runs_with_its_own_truth_and_shows_it_to_nobody(caffeine: Experiment) -> None:
    run = create.create_episode_run([caffeine], "offline", 1, seed=5, truths="validation")
    run_to_end(run)
    episode = run.episodes.get()
    # 50 mL of coffee contain 50,000 µg for each mg/mL.
    coffee = next(material for material in episode.initial if material["name"].startswith("Brewed coffee"))
    drawn = Decimal(episode.truth["coffee"].removesuffix(" mg/mL"))
    assert Decimal(coffee["ledger"]["components"]["caffeine"]["amount"]) == 50_000 * drawn
    assert drawn != Decimal("0.412") and episode.status == "submitted" and episode.reviews.get().sufficient
    transcript = repr(benches.build_bench(episode).get_transcript())
    assert "caffeine peak area" in transcript
    assert not [value for value in episode.truth.values() if value in transcript]


def test_unknown_cast_is_refused_with_the_known_ones(caffeine: Experiment) -> None:
    with pytest.raises(UnknownCastError, match="offline, offline-lapses, offline-random"):
        create.create_episode_run([caffeine], "gpt-9", 1)
    assert Episode.objects.count() == 0


def test_an_unknown_experiment_is_refused_with_the_known_ones(lab: None) -> None:
    with pytest.raises(create.UnknownExperimentError, match="caffeine-hplc-analysis"):
        create.get_experiments("coffee")


def test_missing_experiments_error_explains_how_to_load_them(db: None) -> None:
    with pytest.raises(create.UnknownExperimentError, match="load_lab"):
        create.get_experiments("all")


def test_a_queued_episode_is_stopped_at_once(caffeine: Experiment) -> None:
    episode = create.create_episode_run([caffeine], "offline", 1).episodes.get()
    assert control.stop_episode(episode) is True
    episode.refresh_from_db()
    assert episode.status == "cancelled"
    assert control.stop_episode(episode) is False


def test_retried_episode_replaces_the_replicate_and_only_the_retry_counts(caffeine: Experiment) -> None:
    episode = create.create_episode_run([caffeine], "offline", 1, seed=3).episodes.get()
    control.stop_episode(episode)
    again = create.retry_episode(episode)
    assert (again.replicate, again.seed, again.initial) == (episode.replicate, episode.seed, episode.initial)
    assert list(Episode.objects.filter(counts=True)) == [again]
    with pytest.raises(ValueError, match="only a failed or stopped episode"):
        create.retry_episode(episode)


def test_a_running_episode_is_not_retried(caffeine: Experiment) -> None:
    episode = create.create_episode_run([caffeine], "offline", 1).episodes.get()
    with pytest.raises(ValueError, match="is queued"):
        create.retry_episode(episode)


def test_twins_are_created_for_accepted_steps_only_with_consecutive_numbers(caffeine: Experiment) -> None:
    run = create.create_episode_run([caffeine], "offline", 1, seed=2)
    run_to_end(run)
    accepted = Transition.objects.filter(accepted=True).count()
    create.create_twin_run(Transition.objects.all(), ["subtle"], seed=1)
    create.create_twin_run(Transition.objects.all(), ["subtle"], seed=1)
    assert Twin.objects.count() == 2 * accepted
    assert set(Twin.objects.values_list("number", flat=True)) == {1, 2}


def test_progress_counts_rows_by_status(caffeine: Experiment) -> None:
    run = create.create_episode_run([caffeine], "offline", 3)
    control.stop_episode(run.episodes.first())
    now = create.get_progress(run)
    assert (now.total, now.ended, now.by_status) == (3, 1, {"queued": 2, "cancelled": 1})
    assert not now.is_finished


def create_in_six_threads(order: Callable[[], object]) -> list[Any]:
    """Create the same run in six threads at once, and return the errors."""
    return [result for result in run_concurrently(order, 6) if isinstance(result, Exception)]


@pytest.mark.django_db(transaction=True)
def test_same_submission_six_times_at_once_creates_one_run(caffeine: Experiment) -> None:
    assert (
        create_in_six_threads(lambda: create.create_episode_run([caffeine], "offline", 2, submission_id="click")) == []
    )
    assert Episode.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_six_concurrent_runs_number_their_replicates_without_conflicts(caffeine: Experiment) -> None:
    assert create_in_six_threads(lambda: create.create_episode_run([caffeine], "offline", 2)) == []
    assert sorted(Episode.objects.values_list("replicate", flat=True)) == list(range(1, 13))  # 6 runs of 2


@pytest.mark.django_db(transaction=True)
def test_six_concurrent_twin_runs_number_their_twins_without_conflicts(caffeine: Experiment) -> None:
    run_to_end(create.create_episode_run([caffeine], "offline", 1, seed=2))
    accepted = Transition.objects.filter(accepted=True).count()
    assert create_in_six_threads(lambda: create.create_twin_run(Transition.objects.all(), ["subtle"])) == []
    assert Twin.objects.count() == 6 * accepted
    assert set(Twin.objects.values_list("number", flat=True)) == set(range(1, 7))


@pytest.mark.django_db(transaction=True)
def test_six_concurrent_retries_create_one_episode(caffeine: Experiment) -> None:
    episode = create.create_episode_run([caffeine], "offline", 1).episodes.get()
    control.stop_episode(episode)
    refused = create_in_six_threads(lambda: create.retry_episode(episode))
    assert [type(trouble) for trouble in refused] == [ValueError] * 5
    assert Episode.objects.filter(counts=True).count() == 1 and Episode.objects.count() == 2
