"""Runs whose agents are given a protocol with hidden steps."""

from typing import Any

import pytest
from django.core.management import CommandError, call_command

from ratings.results.benchmarks import store
from ratings.studies import pool
from simulation.casts import prompt_store
from simulation.casts.prompt_store import NoSuchPromptSet
from simulation.lab.errors import LabError
from simulation.lab.hidden_steps.masks import Drawing
from simulation.models import Episode, Experiment, Run, Transition
from simulation.recordings import run_recordings
from simulation.runs import benches, control, create, protocol_masks
from simulation.runs.protocol_masks import MaskOrder
from tests.support.model_casts import create_cast
from tests.support.steps import run_to_end

ESSENTIAL = [1, 4, 6, 7, 8, 9]


@pytest.fixture
def colonies(lab: None) -> Experiment:
    """A short protocol, whose essential steps are stored, so that they need not be found."""
    experiment = Experiment.objects.get(slug="gfp-colony-screening")
    experiment.essential_steps = ESSENTIAL
    experiment.save()
    return experiment


def order_run(experiment: Experiment, *hide: int, attempts: int = 1, cast: str = "offline-gaps", **drawing: Any) -> Run:
    order = MaskOrder(hide, Drawing(**drawing))
    return create.create_episode_run([experiment], cast, attempts, seed=3, truths="validation", masks=order)


@pytest.mark.both_databases
def test_each_mask_has_its_own_replicates_with_the_same_truths(colonies: Experiment) -> None:
    run = order_run(colonies, 0, 2, attempts=2, per_n=2)
    rows = list(run.episodes.order_by("pk"))
    assert [(row.mask["n"], row.mask["draw"], row.replicate) for row in rows] == [
        (0, 1, 1), (0, 1, 2), (2, 1, 1), (2, 1, 2), (2, 2, 1), (2, 2, 2),
    ]  # fmt: skip
    assert len({row.seed for row in rows}) == 6 and len({row.truth_seed for row in rows}) == 2
    assert rows[0].mask_key == "none/text" and all(set(row.mask["hidden"]) <= set(ESSENTIAL) for row in rows)
    # A further run of the same masks adds replicates; another cast, and episodes without a protocol, count from 1.
    assert [row.replicate for row in order_run(colonies, 0).episodes.all()] == [3]
    plain = create.create_episode_run([colonies], "offline-gaps", 1).episodes.get()
    assert (plain.replicate, plain.mask, plain.mask_key) == (1, {}, "")
    # A retry has the mask of the episode that it replaces.
    control.stop_episode(rows[3])
    retried = create.retry_episode(rows[3])
    assert (retried.mask, retried.mask_key, retried.seed) == (rows[3].mask, rows[3].mask_key, rows[3].seed)


def test_masked_episode_runs_to_a_verdict_and_shows_which_lines_its_gaps_had_met(colonies: Experiment) -> None:
    run = order_run(colonies, 0, 4)
    run_to_end(run)
    whole, gaps = run.episodes.order_by("pk")
    assert whole.reviews.get().sufficient and "missing" not in benches.write_masked_protocol(whole)
    assert protocol_masks.judge_hidden_lines(whole) == []
    assert benches.write_masked_protocol(gaps).count("(one step is missing here)") == 4
    assert benches.build_bench(gaps).get_situation().protocol == benches.write_masked_protocol(gaps)
    lines = protocol_masks.judge_hidden_lines(gaps)
    assert {line.text for line in lines} >= {"DNA of every colony isolated, each colony apart"}
    # It may also end by three rejections, because steps after a gap lack their materials.
    assert gaps.reviews.filter(sufficient=True).exists() == all(line.met for line in lines)
    assert not Transition.objects.filter(given=True).exists()


def test_prefix_steps_are_stored_as_steps_that_were_given(colonies: Experiment) -> None:
    run = order_run(colonies, 1, help="prefix", per_n=4)
    run_to_end(run)
    for episode in run.episodes.all():
        [hidden] = episode.mask["hidden"]
        given = list(episode.transitions.filter(given=True).order_by("number").values_list("number", flat=True))
        assert given == list(range(1, hidden)) and episode.mask_key == f"{hidden}/prefix"
        trajectory = run_recordings.build_trajectory(episode)
        assert trajectory["mask"] == episode.mask and trajectory["given_steps"] == hidden - 1
        assert "PROTOCOL\n1. " in trajectory["steps"][0]["observation"]


def test_benchmarks_studies_and_twins_leave_masked_episodes_out(colonies: Experiment) -> None:
    run = order_run(colonies, 0)
    run_to_end(run)
    [candidate] = store.list_candidates()
    assert candidate.exclusion_reason == "its agents were given a protocol with hidden steps"
    assert not store.select_episodes([run]) and not create.list_accepted_steps([colonies])
    protocol: Any = type("AllItems", (), {"experiments": (), "actions": (), "sources": ()})()
    assert Transition.objects.filter(accepted=True).exists() and not pool._filter_usable_steps(protocol)


def test_too_many_hidden_steps_are_refused_with_the_number_that_there_are(colonies: Experiment) -> None:
    with pytest.raises(LabError, match="7 essential steps cannot be hidden: gfp-colony-screening has 6"):
        order_run(colonies, 0, 7)
    with pytest.raises(LabError, match="hidden steps: is 31; allowed: 0 to 30; draws: is 0; allowed: 1 to 1000"):
        order_run(colonies, 31, per_n=0)
    with pytest.raises(LabError, match="help: is 'prefix'; allowed for an agent with lapses: text"):
        order_run(colonies, 1, cast="offline-lapses", help="prefix")
    assert not Run.objects.exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"hide": "1,1"}, "names a number twice"),
        ({"hide": "one"}, "not a whole number from 0 to 30"),
        ({"draws": "2"}, "need --hide"),
    ],
)
def test_run_command_refuses_wrong_masks(lab: None, options: dict[str, str], words: str) -> None:
    arguments = [f"--{name}={value}" for name, value in options.items()]
    with pytest.raises(CommandError, match=words):
        call_command("run_episodes", "--experiment=gfp-colony-screening", *arguments)
    assert not Episode.objects.exists()


@pytest.mark.usefixtures("model_server")
def test_language_model_needs_a_prompt_set_with_a_place_for_the_protocol(colonies: Experiment) -> None:
    cast = create_cast()
    with pytest.raises(NoSuchPromptSet, match=r"no place \{protocol\} in agent.user.txt"):
        create.create_episode_run([colonies], cast, 1, masks=MaskOrder((0,)), prompt_set="wetbench")
    run = create.create_episode_run([colonies], cast, 1, masks=MaskOrder((0,)))
    assert run.setup["prompt_set"]["name"] == "wetbench-protocol" and run.conditions["hide"] == [0]
    assert [row.name for row in prompt_store.list_current()] == ["wetbench", "wetbench-protocol"]


def test_essential_steps_are_found_once_and_again_after_the_data_files_change(lab: None) -> None:
    from django.conf import settings

    from simulation.casts import load_files

    experiment = Experiment.objects.get(slug="gcamp7-viral-packaging")
    assert experiment.essential_steps is None
    assert len(protocol_masks.get_essential_steps(experiment)) == 11
    experiment.refresh_from_db()
    assert len(experiment.essential_steps) == 11
    load_files.load_lab(settings.FIXTURES_DIR)
    experiment.refresh_from_db()
    assert experiment.essential_steps is not None
    Experiment.objects.filter(slug="caffeine-hplc-analysis").update(sha256="0" * 64)
    load_files.load_lab(settings.FIXTURES_DIR)
    experiment.refresh_from_db()
    assert experiment.essential_steps is None
