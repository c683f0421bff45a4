"""Importing this module registers a Gymnasium environment `WetBench/<slug>-v0` for every experiment of fixtures/.

Transition model and classifier are rule-based, so the environments need no Django, database or API key:

    import gymnasium, simulation.offline.gym
    env = gymnasium.make("WetBench/zebrafish-genotyping-v0", render_mode="ansi")
"""

from functools import cache
from pathlib import Path

import gymnasium

from simulation.lab import catalogue, experiments
from simulation.lab.actions import Catalogue
from simulation.lab.environment.gym_env import Reward, SimulatedRoles, WetLabEnv
from simulation.lab.errors import CatalogueError
from simulation.lab.experiments import ExperimentSpec
from simulation.lab.truths import truth_seeds
from simulation.offline.checklist import ChecklistClassifier
from simulation.offline.rules import RuleBasedTransitionModel

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
    directory: Path = FIXTURES,
) -> WetLabEnv:
    """Return the environment of one experiment. Raises CatalogueError if it is unknown or a data file is wrong."""
    experiment, actions = _load_experiment(slug, directory), _load_catalogue(directory)
    return WetLabEnv(experiment, actions, build_offline_roles, render_mode, manifest, truths, reward, discount)


def build_offline_roles(spec: ExperimentSpec, seed: int) -> SimulatedRoles:
    classifier = ChecklistClassifier(spec.rubric)
    return SimulatedRoles(RuleBasedTransitionModel(seed, spec.truth), classifier, classifier.measure_evidence)


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
