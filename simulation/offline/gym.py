"""Importing this module registers a Gymnasium environment `WetBench/<slug>-v0` for every experiment of fixtures/.

Transition model and classifier are rule-based, so the environments need no Django, database or API key:

    import gymnasium, simulation.offline.gym
    env = gymnasium.make("WetBench/zebrafish-genotyping-v0", render_mode="ansi")
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import gymnasium

from simulation.lab import catalogue, experiments
from simulation.lab.actions import Catalogue
from simulation.lab.environment.gym_env import Reward, SimulatedRoles, WetLabEnv
from simulation.lab.errors import CatalogueError, LabError
from simulation.lab.experiments import ExperimentSpec
from simulation.lab.hidden_steps.masks import HELP_MODES, TEXT, UNIFORM, Drawing, Help, Mode, ProtocolMask
from simulation.lab.truths import truth_seeds
from simulation.offline.agents import ProtocolAgent
from simulation.offline.checklist import ChecklistClassifier
from simulation.offline.hidden_steps.essential_steps import draw_masks, find_essential_steps
from simulation.offline.rules import RuleBasedTransitionModel
from wetbench_site.validation import format_problem

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


def list_slugs(directory: Path = FIXTURES) -> list[str]:
    """Return the sorted names of the experiment files without `.json`. No file is read."""
    return sorted(path.stem for path in (directory / "experiments").glob("*.json"))


def environment_id(slug: str) -> str:
    return f"WetBench/{slug}-v0"


def make_environment(
    slug: str,
    render_mode: str | None = None,
    manifest: bool = False,
    truths: str = truth_seeds.TRAIN,
    reward: Reward = "binary",
    discount: float = 1.0,
    hide: int | Sequence[int] | None = None,
    draws: int = 1,
    mask_mode: Mode = UNIFORM,
    help_mode: Help = TEXT,
    mask_seed: int = 1,
    directory: Path = FIXTURES,
) -> WetLabEnv:
    """Return the environment of one experiment. Raises CatalogueError if it is unknown or a data file is wrong.

    With `hide`, the agent reads the reference protocol without that many essential steps. For each number in it, `draws` masks are
    drawn as by `run_episodes --hide`. Raises LabError for masks that cannot be drawn.
    """
    experiment, actions = _load_experiment(slug, directory), _load_catalogue(directory)
    masks: tuple[ProtocolMask, ...] = ()
    if hide is not None:
        numbers = (hide,) if isinstance(hide, int) else tuple(hide)
        masks = _draw_masks(slug, numbers, Drawing(draws, mask_mode, help_mode, mask_seed), directory)
    return WetLabEnv(experiment, actions, build_offline_roles, render_mode, manifest, truths, reward, discount, masks)


def build_offline_roles(spec: ExperimentSpec, seed: int) -> SimulatedRoles:
    classifier = ChecklistClassifier(spec.rubric)

    def follow_protocol(n_steps: int) -> ProtocolAgent:
        return ProtocolAgent(replace(spec, protocol=spec.protocol[:n_steps]), seed)

    model = RuleBasedTransitionModel(seed, spec.truth)
    return SimulatedRoles(model, classifier, classifier.measure_evidence, follow_protocol)


@cache
def _draw_masks(slug: str, numbers: tuple[int, ...], drawing: Drawing, directory: Path) -> tuple[ProtocolMask, ...]:
    """Return the masks for these numbers of hidden steps. Raises LabError if they cannot be drawn."""
    if drawing.per_n < 1:
        raise LabError(f"draws: {format_problem(drawing.per_n, '1 or more')}")
    if drawing.help not in HELP_MODES:
        raise LabError(f"help_mode: {format_problem(drawing.help, ', '.join(HELP_MODES))}")
    experiment, actions = _load_experiment(slug, directory), _load_catalogue(directory)
    return tuple(draw_masks(experiment, actions, _find_essential_steps(slug, directory), drawing, sorted(numbers)))


@cache
def _find_essential_steps(slug: str, directory: Path) -> tuple[int, ...]:
    """Return the essential steps. This takes seconds: it runs the protocol without each step in turn."""
    return find_essential_steps(_load_experiment(slug, directory), _load_catalogue(directory)).essential


@cache
def _load_catalogue(directory: Path) -> Catalogue:
    return catalogue.load_catalogue(directory / "actions")[0]


@cache
def _load_experiment(slug: str, directory: Path) -> ExperimentSpec:
    """Return one experiment. Mistakes in the files of other experiments are ignored."""
    path = directory / "experiments" / f"{slug}.json"
    if slug not in (slugs := list_slugs(directory)):
        raise CatalogueError(f"No experiment {slug!r}; there are {', '.join(slugs)}")
    return experiments.load_experiment(path, _load_catalogue(directory))


def register_environments() -> None:
    """Register every experiment with Gymnasium. Repeated calls have no effect."""
    # As text, not the function itself: specifications with text can be written to JSON and read in another process.
    entry_point = f"{make_environment.__module__}:{make_environment.__name__}"
    for slug in list_slugs():
        if environment_id(slug) not in gymnasium.registry:
            gymnasium.register(environment_id(slug), entry_point=entry_point, kwargs={"slug": slug})


register_environments()
