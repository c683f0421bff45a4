"""Importing this registers a Gymnasium environment `WetBench/<slug>-v0` for every experiment of fixtures/.

Played by the offline cast, so it needs neither Django nor a database nor a key:

    import gymnasium, simulation.offline.gym
    env = gymnasium.make("WetBench/zebrafish-genotyping-v0", render_mode="ansi")
"""

from functools import cache
from pathlib import Path

import gymnasium

from simulation.lab import catalogue, experiments
from simulation.lab.actions import Catalogue
from simulation.lab.environment.env import Players, WetLabEnv
from simulation.lab.errors import CatalogueError
from simulation.lab.experiments import ExperimentSpec
from simulation.offline.checklist import ChecklistClassifier
from simulation.offline.rules import RuleBasedTransitionModel

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


def slugs(directory: Path = FIXTURES) -> list[str]:
    """The experiments there are, by the names of their files; nothing is read."""
    return sorted(path.stem for path in (directory / "experiments").glob("*.json"))


def environment_id(slug: str) -> str:
    return f"WetBench/{slug}-v0"


def make(slug: str, render_mode: str | None = None, manifest: bool = False, directory: Path = FIXTURES) -> WetLabEnv:
    """The environment of one experiment. CatalogueError if it is unknown or a data file is wrong."""
    return WetLabEnv(_experiment(slug, directory), _catalogue(directory), offline_players, render_mode, manifest)


def offline_players(spec: ExperimentSpec, seed: int) -> Players:
    return Players(RuleBasedTransitionModel(seed, spec.truth), ChecklistClassifier(spec.rubric))


@cache
def _catalogue(directory: Path) -> Catalogue:
    return catalogue.read_directory(directory / "actions")[0]


@cache
def _experiment(slug: str, directory: Path) -> ExperimentSpec:
    """One file, checked by itself: a mistake in another experiment's file is that one's business."""
    path = directory / "experiments" / f"{slug}.json"
    entries, problems = catalogue.read_files(path.parent)
    data = dict(entries).get(path.name)
    if data is None:
        own_problems = [problem for problem in problems if path.name in problem]
        raise CatalogueError(
            "\n".join(own_problems) or f"No experiment {slug!r}; there are {', '.join(slugs(directory))}"
        )
    if problems := experiments.check_file(path, data, _catalogue(directory)):
        raise CatalogueError("\n".join(problems))
    return experiments.build(data)


def register() -> None:
    """Tell Gymnasium of every experiment; safe to repeat."""
    for slug in slugs():
        if environment_id(slug) not in gymnasium.registry:
            gymnasium.register(environment_id(slug), entry_point="simulation.offline.gym:make", kwargs={"slug": slug})


register()
