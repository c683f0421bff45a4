"""Write transitions of offline episodes and twins with planted errors, as lines that the checker reads.

python tests/simulation/checker/corpus.py OFFLINE.jsonl TWINS.jsonl
"""

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[3])]

from simulation.lab import catalogue  # noqa: E402
from simulation.lab.bench import Bench  # noqa: E402
from simulation.lab.experiments import ExperimentSpec  # noqa: E402
from simulation.lab.materials import build_inventory  # noqa: E402
from simulation.lab.outcomes import Perturbation  # noqa: E402
from simulation.offline.agents import ProtocolAgent, RandomAgent  # noqa: E402
from simulation.offline.injectors import Injector  # noqa: E402
from simulation.offline.injectors.edits import apply_edits  # noqa: E402
from simulation.offline.rules import RuleBasedTransitionModel  # noqa: E402
from tests.support.data_files import CATALOGUE, load_specs  # noqa: E402


def build_line(name: str, slug: str, action: Any, inputs: Any, outcome: Any, **labels: Any) -> dict[str, Any]:
    outcome_json = outcome.to_json()
    for material in outcome_json["new_materials"]:
        del material["ledger"]
    seen = [material.to_visible() for material in inputs]
    return {
        "id": name,
        "experiment": slug,
        "input_materials": seen,
        "action": action.to_json(),
        "outcome": outcome_json,
        **labels,
    }


def iter_episode_lines(
    spec: ExperimentSpec, known: catalogue.Catalogue, agent: str, seed: int, twins: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield all transitions of one episode, each followed by a twin of every kind that fits if `twins`."""
    chooser = RandomAgent(seed) if agent == "random" else ProtocolAgent(spec, seed, lapses=agent == "lapses")
    bench = Bench(
        goal=spec.goal,
        catalogue=known,
        inventory=build_inventory(spec.initial_materials(), seed),
        seed=seed,
        max_steps=spec.max_steps,
    )
    model = RuleBasedTransitionModel(seed, spec.truth)
    while bench.ending is None:
        situation = bench.get_situation()
        action, outcome = bench.resolve_action(chooser.choose_action(situation))
        outcome = outcome or model.predict_outcome(action, situation)
        place = f"{spec.slug}/{seed}/{agent}/{len(bench.history) + 1}"
        inputs = [bench.inventory[code] for code in action.materials if bench.inventory.get(code)]
        yield build_line(place, spec.slug, action, inputs, outcome, truth="correct")
        if twins:
            for truth, kind, wrong, why in iter_planted_errors(action, situation, outcome, seed):
                yield build_line(f"{place}/{kind}", spec.slug, action, inputs, wrong, truth=truth, code=kind, why=why)
        bench.record_outcome(action, outcome)


def iter_planted_errors(action: Any, situation: Any, outcome: Any, seed: int) -> Iterator[tuple[str, str, Any, str]]:
    """Yield (type, kind, outcome with the error, reason) for every kind of error that fits."""
    for sort, truth in ((Perturbation.OBVIOUS, "type1"), (Perturbation.SUBTLE, "type2")):
        for kind, plans in Injector(sort, seed).list_plans(action, situation, outcome).items():
            plan = random.Random(f"{seed}{kind}{len(situation.history)}").choice(plans)
            yield truth, kind, apply_edits(outcome, plan.edits), plan.explanation


def write_files(offline: Path, twins: Path) -> None:
    all_specs, types = load_specs().values(), CATALOGUE
    with offline.open("w", encoding="utf-8") as right, twins.open("w", encoding="utf-8") as wrong:
        for experiment in all_specs:
            for number in range(2):
                for agent in ("protocol", "lapses", "random"):
                    for entry in iter_episode_lines(experiment, types, agent, number, twins=number == 0):
                        print(json.dumps(entry, ensure_ascii=False), file=wrong if "why" in entry else right)


if __name__ == "__main__":
    write_files(Path(sys.argv[1]), Path(sys.argv[2]))
