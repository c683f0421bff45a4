"""python -m bench.offline_steps: how many steps a second the offline cast takes on one core, and how that grows.

The baseline, measured in the same run, is a bench of 10 materials; what counts is the ratio to it, not the machine. Ends
with 1 if the time of a step grows faster than the number of materials.
"""

import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median

from simulation.lab import catalogue, experiments
from simulation.lab.actions import Action, Catalogue
from simulation.lab.bench import Bench
from simulation.lab.materials import Draft, place_all
from simulation.lab_report.rehearsal import play
from simulation.offline.rules import RuleBasedTransitionModel

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
SIZES = (10, 100, 1000)  # the first is the baseline
ROUNDS, TIMES = 5, 7  # rounds of the four actions on one bench; benches measured, of which the median counts
TOLERANCE = 1.5  # a step may take that much longer than in proportion to the materials: noise of the machine


def tube(number: int) -> Draft:
    """A tube of salt water, half full."""
    components = {"salt": {"dimension": "amount", "amount": "500", "known": True}}
    return Draft(
        name=f"Tube {number}",
        properties={"phase": "liquid", "volume": "500 µL", "container": "1 mL tube", "container_capacity": "1 mL"},
        ledger={"key": f"tube_{number}", "components": components, "origins": {f"tube_{number}": "1"}, "volume": "500"},
    )


def rounds(bench: Bench, model: RuleBasedTransitionModel) -> int:
    """Moves, mixes, measures and waits, always on the first two materials; the number of steps, none refused."""
    first, second = (material.barcode for material in bench.inventory.materials[:2])
    actions = (
        Action("Transfer", (first, second), {"source": first, "amount": "1 µL"}),
        Action("Mix", (second,), {}),
        Action("MeasureVolume", (second,), {}),
        Action("Wait", (first,), {"duration": "1 min"}),
    )
    for action in actions * ROUNDS:
        done = bench.step(action, model)
        assert done.outcome.success, done.outcome.failure_reason
    return len(bench.history)


def seconds_per_step(size: int, actions: Catalogue) -> float:
    """The median over several benches of that many materials, in processor time."""
    measured = []
    for seed in range(TIMES):
        bench = Bench("bench", actions, place_all(map(tube, range(size)), seed), seed, 1000)
        measured.append(_per_step(partial(rounds, bench, RuleBasedTransitionModel(seed))))
    return median(measured)


def seconds_per_protocol_step(actions: Catalogue) -> float:
    """The same over every reference protocol, with the agent's planning and the classifier's judging."""
    specs = [spec for spec, _ in experiments.read_directory(FIXTURES / "experiments", actions)]
    return _per_step(lambda: sum(play(spec, actions, seed=1).steps for spec in specs))


def _per_step(steps: Callable[[], int]) -> float:
    started = time.process_time()
    number = steps()
    return (time.process_time() - started) / number


def main() -> int:
    actions, _ = catalogue.read_directory(FIXTURES / "actions")
    seconds_per_step(SIZES[0], actions)  # warm: the first use compiles and fills caches
    taken = {size: seconds_per_step(size, actions) for size in SIZES}
    baseline = taken[SIZES[0]]
    print(f"Offline steps on one core. Baseline: a bench of {SIZES[0]} materials, {1000 * baseline:.2f} ms a step.")
    print(f"{'bench':>28}  {'steps/s':>8}  {'time / baseline':>15}  {'materials / baseline':>20}")
    for size, seconds in taken.items():
        name = f"{size} materials"
        print(f"{name:>28}  {1 / seconds:8.0f}  {seconds / baseline:15.2f}  {size / SIZES[0]:20.0f}")
    whole = seconds_per_protocol_step(actions)
    print(f"{'reference protocols, judged':>28}  {1 / whole:8.0f}  {whole / baseline:15.2f}")
    worse = [more for less, more in pairwise(SIZES) if taken[more] > TOLERANCE * taken[less] * more / less]
    print(f"Growth: {'FASTER THAN LINEAR at ' + ', '.join(map(str, worse)) if worse else 'linear or better'}.")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
