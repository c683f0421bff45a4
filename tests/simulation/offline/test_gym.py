"""Every experiment as a Gymnasium environment, played by the rule-based cast."""

import subprocess
import sys
from pathlib import Path

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

from simulation.lab.actions import Action
from simulation.lab.gym_env import ActionSpace, UnicodeText
from simulation.offline import gym
from simulation.offline.agents import ProtocolAgent

REPOSITORY = Path(__file__).parents[3]
FISH, COFFEE = "zebrafish-genotyping", "caffeine-hplc-analysis"
SUBMIT = "ACTION: SubmitMaterialsObservationsForReview\nMATERIALS:\nPARAMETERS:"


def make(slug, **options):
    return gymnasium.make(gym.environment_id(slug), **options)


def as_text(action: Action) -> str:
    """Return the action as the three lines of the paper."""
    written = ", ".join(f"{name}={_written(value)}" for name, value in action.parameters.items())
    return f"ACTION: {action.name}\nMATERIALS: {', '.join(action.materials)}\nPARAMETERS: {written}"


def _written(value) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{part}" for key, part in value.items()) + "}"
    if isinstance(value, list | tuple):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def play(env, write, seed=7):
    """Play the reference protocol to its end and return everything the environment returned, step by step."""
    seen = [(*env.reset(seed=seed), 0.0, False, False)]
    agent = ProtocolAgent(env.unwrapped.experiment, seed)
    while not (seen[-1][3] or seen[-1][4]):
        choice = agent.choose_action(env.unwrapped.bench.get_situation())
        observation, reward, terminated, truncated, info = env.step(write(choice))
        seen.append((observation, info, reward, terminated, truncated))
    return seen


def bench_line(env) -> str:
    """Return an action that can be repeated for ever: waiting with the first material."""
    return f"ACTION: Wait\nMATERIALS: {env.unwrapped.bench.inventory.materials[0].barcode}\nPARAMETERS: duration=1 s"


@pytest.mark.parametrize("slug", gym.list_slugs())
def test_every_experiment_passes_gymnasiums_own_checker(slug):
    check_env(make(slug, render_mode="ansi").unwrapped)


@pytest.mark.parametrize("slug", [COFFEE, FISH])
@pytest.mark.parametrize("write", [as_text, Action.to_json])
def test_gym_rewards_the_reference_protocol(slug, write):
    *before, (_, info, reward, terminated, truncated) = play(make(slug), write)
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert info["ending"] == "submitted" and info["verdict"]["sufficient"] is True
    assert all(entry[2] == 0.0 and entry[1]["verdict"] is None for entry in before)
    assert not any(entry[1]["rejected"] for entry in before)


def test_gym_accepts_actions_as_text_and_as_objects():
    assert play(make(FISH), as_text) == play(make(FISH), Action.to_json)


def test_the_same_seed_plays_the_same_episode_and_another_seed_another():
    assert play(make(COFFEE), as_text, seed=3) == play(make(COFFEE), as_text, seed=3)
    first, other = make(COFFEE).reset(seed=3)[0], make(COFFEE).reset(seed=4)[0]
    assert first != other  # barcodes come from the seed


def test_gym_gives_no_reward_for_a_submission_without_evidence():
    env = make(FISH)
    env.reset(seed=1)
    _, reward, terminated, truncated, info = env.step(SUBMIT)
    assert (reward, terminated, truncated) == (0.0, True, False)
    assert info["verdict"]["sufficient"] is False


def test_gym_counts_unreadable_text_as_a_step_and_ends_after_three():
    env = make(FISH)
    env.reset(seed=1)
    for number in (1, 2, 3):
        _, reward, terminated, truncated, info = env.step("Let us look at the fish ≥ 2 µm")
        assert (info["step"], info["rejected_by"], info["elapsed"]) == (number, "parser", 0)
        assert "no line ACTION" in info["rejected"]
        assert (reward, terminated, truncated) == (0.0, number == 3, False)
    assert info["ending"] == "rejected_out"


def test_gym_reports_a_rejection_by_the_catalogue():
    env = make(FISH)
    env.reset(seed=1)
    assert env.step("ACTION: Teleport")[4]["rejected_by"] == "catalogue"


def test_gym_ends_without_reward_on_quit():
    env = make(FISH)
    env.reset(seed=1)
    _, reward, terminated, truncated, info = env.step({"name": "Quit"})
    assert (reward, terminated, truncated, info["ending"]) == (0.0, True, False, "quit")


def test_gym_truncates_the_episode_when_steps_run_out():
    env = make(FISH)
    env.reset(seed=1)
    most = env.unwrapped.experiment.max_steps
    for number in range(1, most + 1):
        _, _, terminated, truncated, info = env.step(bench_line(env))
        assert (terminated, truncated) == (False, number == most)
    assert info["step"] == most and info["ending"] == "truncated"


def test_gym_needs_a_reset_after_the_end():
    env = make(FISH)
    env.reset(seed=1)
    env.step(SUBMIT)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(SUBMIT)
    assert env.reset(seed=1)[1]["step"] == 0
    env.step(bench_line(env))


def test_gym_observations_hide_the_truth_and_the_ledger():
    env = make(COFFEE)
    shown = "\n".join(entry[0] for entry in play(env, as_text)) + env.unwrapped.instructions
    assert env.unwrapped.experiment.goal in shown and "Brewed coffee, commercial" in shown
    for secret in ("0.412", "0.187", "0.318", "suspended coffee fines", "58.4", "ledger", "origins"):
        assert secret not in shown, secret


def test_gym_instructions_list_every_action_with_its_parameters():
    env = make(FISH).unwrapped
    for kind in env.catalogue.types.values():
        assert f"{kind.name} ({kind.kind})" in env.instructions
        assert all(f"  {parameter.name} (" in env.instructions for parameter in kind.parameters)


def test_gym_accepts_material_requests_only_with_the_manifest_option():
    slug = next(slug for slug in gym.list_slugs() if make(slug).unwrapped.experiment.manifest)
    offered = make(slug).unwrapped.experiment.manifest[0][1].name
    ask = f'ACTION: ManifestMaterials\nPARAMETERS: request="{offered}"'
    off, on = make(slug), make(slug, manifest=True)
    off.reset(seed=1)
    assert off.step(ask)[4]["rejected_by"] == "catalogue" and "ManifestMaterials" not in off.unwrapped.instructions
    on.reset(seed=1)
    observation, _, _, _, info = on.step(ask)
    assert offered in observation and (info["step"], info["elapsed"], info["rejected"]) == (0, 0, "")


def test_gym_renders_a_readable_transcript():
    env = make(FISH, render_mode="ansi")
    steps = len(play(env, as_text)) - 1
    told = env.render()
    assert told.startswith(f"GOAL: {env.unwrapped.experiment.goal}")
    assert f"\n\n{steps}. Submit" in told and "ENDED: submitted" in told and "VERDICT: VALID" in told
    silent = make(FISH)
    silent.reset(seed=1)
    assert silent.unwrapped.render() is None


def test_gym_episodes_run_in_parallel_independently():
    both = gymnasium.make_vec(gym.environment_id(FISH), num_envs=2, vectorization_mode="sync")
    observations, _ = both.reset(seed=[1, 2])
    alone = make(FISH).reset(seed=2)[0]
    assert observations[1] == alone != observations[0]
    _, rewards, terminated, _, info = both.step((SUBMIT, "nonsense"))
    assert list(terminated) == [True, False] and list(rewards) == [0.0, 0.0]
    assert list(info["rejected_by"]) == ["", "parser"]


def test_text_space_contains_laboratory_text_but_not_unstorable_characters():
    space = UnicodeText(100)
    assert space.contains("") and space.contains("50 µM, 4 °C, ΔF/F ≥ 2×10⁻³ mm²\n")
    assert not space.contains("\ud800") and not space.contains("a\x00") and not space.contains(5)
    assert not space.contains("x" * 101)
    assert ActionSpace().contains({"name": "Quit"}) and not ActionSpace().contains({"name": "Quit", "why": "x"})


def test_text_space_samples_are_valid_and_reproducible():
    first, again = UnicodeText(30, seed=5), UnicodeText(30, seed=5)
    samples = [first.sample() for _ in range(50)]
    assert samples == [again.sample() for _ in range(50)]
    assert all(first.contains(text) for text in samples) and len(set(samples)) > 40


def test_gym_import_registers_every_experiment_without_django():
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.modules['django'] = None\n"
            "import gymnasium, simulation.offline.gym\n"
            "print('\\n'.join(sorted(name for name in gymnasium.registry if name.startswith('WetBench/'))))",
        ],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    files = sorted(path.stem for path in (REPOSITORY / "fixtures" / "experiments").glob("*.json"))
    assert len(files) >= 3 and done.stdout.split() == [f"WetBench/{slug}-v0" for slug in files]
