"""Every experiment as a Gymnasium environment, played by the rule-based cast."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

from simulation.lab.actions import Action
from simulation.lab.environment.gym_env import ActionSpace, UnicodeText
from simulation.lab.environment.tool_schemas import build_call
from simulation.lab.errors import LabError
from simulation.lab.hidden_steps.written_protocols import HIDDEN_STEP
from simulation.lab.truths import truth_seeds
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


def as_tool_call(action: Action) -> dict:
    return build_call(action.name, list(action.materials), action.parameters, "call-x")


def test_gym_accepts_tool_calls_and_answers_each_in_a_message_with_its_id():
    env = make(FISH).unwrapped
    assert play(env, as_tool_call) == play(make(FISH), as_text)
    system, opening, *turns = env.messages
    assert (system["role"], opening["role"]) == ("system", "user") and "GOAL: " in opening["content"]
    for call, result in zip(turns[::2], turns[1::2], strict=True):
        assert call["role"] == "assistant" and call["tool_calls"][0]["id"] == "call-x" == result["tool_call_id"]
    assert turns[-1]["content"].endswith("ENDED: submitted")
    assert env.action_space.contains(turns[0]) and env.action_space.contains(turns[0]["tool_calls"][0])


def test_gym_counts_an_unreadable_tool_call_as_a_rejected_step():
    env = make(FISH).unwrapped
    env.reset(seed=1)
    *_, info = env.step({"id": "a", "function": {"name": "Wait", "arguments": "{"}})
    assert info["step"] == 1 and info["rejected_by"] == "parser" and "JSON" in info["rejected"]
    assert [message["role"] for message in env.messages[2:]] == ["assistant", "user"]


@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_shaped_rewards_add_up_to_the_binary_reward_whatever_the_episode(discount):
    env = make(COFFEE, reward="shaped", discount=discount).unwrapped
    shaped = [entry[2] for entry in play(env, as_text)[1:]]
    # Discounted differences of a potential that begins and ends at zero cancel out: what is left is the last reward.
    total = sum(reward * discount**number for number, reward in enumerate(shaped))
    assert total == pytest.approx(discount ** (len(shaped) - 1))
    assert sum(reward > 0 for reward in shaped) >= 4 and max(shaped) < 1


def test_shaped_reward_is_the_share_of_lines_and_is_lost_without_a_submission():
    env = make(FISH, reward="shaped").unwrapped
    env.reset(seed=3)
    barcodes = {material.name: material.barcode for material in env.bench.inventory}
    fish = [barcodes[f"Tail fin clip, fish {number}"] for number in range(1, 6)]
    question = {"question": "Are there pigmented lines on the fin?"}
    _, first, *_ = env.step({"name": "VisualInspection", "materials": fish[:4], "parameters": question})
    assert first == 0.0 == env.measure_evidence()
    _, second, *_ = env.step({"name": "VisualInspection", "materials": fish[4:], "parameters": question})
    assert second == pytest.approx(env.measure_evidence()) and second > 0
    _, last, *_ = env.step("ACTION: Quit\nMATERIALS:\nPARAMETERS:")
    assert last == pytest.approx(-second)


def test_gym_draws_a_truth_of_its_split_for_each_episode():
    env = make(COFFEE, truths="validation").unwrapped
    seeds = [env.reset(seed=1)[1]["truth_seed"], *(env.reset()[1]["truth_seed"] for _ in range(3))]
    assert len(set(seeds)) == 4 and all(truth_seeds.find_split(seed) == "validation" for seed in seeds)
    assert env.reset(seed=1)[1]["truth_seed"] == seeds[0]
    assert env.reset(options={"truth_seed": 5})[1]["truth_seed"] == 5
    assert make(COFFEE, truths="reference").reset(seed=1)[1]["truth_seed"] is None
    ledgers = []
    for seed in seeds[:2]:
        env.reset(options={"truth_seed": seed})
        ledgers.append(env.bench.inventory.materials[0].ledger["components"]["caffeine"]["amount"])
    assert ledgers[0] != ledgers[1]


@pytest.mark.parametrize("wrong", [{"reward": "dense"}, {"discount": 0}, {"truths": "dev"}])
def test_gym_rejects_an_unknown_reward_discount_or_split(wrong):
    with pytest.raises((ValueError, LabError), match="allowed: "):
        make(COFFEE, **wrong)


def test_environment_with_hidden_steps_shows_the_protocol_with_its_gaps_and_rewards_an_agent_that_fills_them():
    env = make(COFFEE, hide=2, mask_mode="nested", mask_seed=3)
    observation, info = env.reset(seed=7)
    mask = info["mask"]
    assert (mask["n"], mask["mode"], mask["help"], mask["draw"], mask["seed"]) == (2, "nested", "text", 1, 3)
    shown = observation.partition("PROTOCOL\n")[2].partition("\n\nTIME")[0].splitlines()
    assert len(shown) == len(env.unwrapped.experiment.protocol) and info["given_steps"] == 0
    assert [number for number, line in enumerate(shown, 1) if line.endswith(HIDDEN_STEP)] == mask["hidden"]
    assert HIDDEN_STEP in env.unwrapped.messages[1]["content"]
    assert play(env, Action.to_json)[-1][2] == 1.0
    # The hidden steps are essential: without them, the record is insufficient.
    spec = env.unwrapped.experiment
    left = tuple(step for number, step in enumerate(spec.protocol, 1) if number not in mask["hidden"])
    env.reset(seed=7)
    agent, ended, reward = ProtocolAgent(replace(spec, protocol=left), 7), False, None
    while not ended:
        _, reward, ended, _, _ = env.step(agent.choose_action(env.unwrapped.bench.get_situation()).to_json())
    assert reward == 0.0


def test_environment_with_several_masks_draws_one_for_every_episode():
    env = make(COFFEE, hide=[0, 1], draws=2)
    keys = [mask.key for mask in env.unwrapped.masks]
    assert len(keys) == 3 and keys[0] == "none/text"  # of no hidden step there is one mask
    drawn = [env.reset(seed=seed)[1]["mask"]["key"] for seed in range(20)]
    assert set(drawn) == set(keys) and drawn == [env.reset(seed=seed)[1]["mask"]["key"] for seed in range(20)]
    assert env.reset(seed=1, options={"mask": keys[2]})[1]["mask"]["key"] == keys[2]
    with pytest.raises(LabError, match="mask: is '1/text'; allowed: none/text, "):
        env.reset(options={"mask": "1/text"})


def test_environment_with_a_prefix_does_the_steps_before_the_first_gap():
    env = make(FISH, hide=1, help_mode="prefix", draws=5, reward="shaped").unwrapped
    mask = max(env.masks, key=lambda mask: mask.steps_before)
    observation, info = env.reset(seed=7, options={"mask": mask.key})
    assert info["given_steps"] == info["step"] == mask.steps_before > 0 and "LAST STEP" in observation
    assert all(step.outcome.success for step in env.bench.history)
    assert len(env.messages) == 2 + 2 * mask.steps_before
    given = env.measure_evidence()
    agent, ended, rewards = ProtocolAgent(env.experiment, 7), False, []
    while not ended:
        _, reward, ended, _, info = env.step(agent.choose_action(env.bench.get_situation()).to_json())
        rewards.append(reward)
    assert info["ending"] == "submitted" and sum(rewards) == pytest.approx(1 - given)


@pytest.mark.parametrize("help_mode", ["text", "prefix"])
def test_environment_with_hidden_steps_passes_gymnasiums_own_checker(help_mode):
    check_env(make(COFFEE, hide=[1, 2], help_mode=help_mode, render_mode="ansi").unwrapped)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hide": 99}, "hidden steps: is 99; allowed: 0 to"),
        ({"hide": -1}, "hidden steps: is -1; allowed: 0 to"),
        ({"hide": 1, "draws": 0}, "draws: is 0; allowed: 1 or more"),
        ({"hide": 1, "mask_mode": "random"}, "mode: is 'random'; allowed: uniform, nested"),
        ({"hide": 1, "help_mode": "all"}, "help_mode: is 'all'; allowed: text, prefix"),
    ],
)
def test_environment_refuses_masks_that_cannot_be_drawn(options, message):
    with pytest.raises(LabError, match=message):
        make(COFFEE, **options)
