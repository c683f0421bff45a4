"""python -m bench.offline_steps: how many steps per second the offline cast runs on one core, and how the time grows.

The baseline, measured in the same run, is a bench of 10 materials; the result is the ratio to it and does not depend on the
machine. Exits with 1 if the time of a step grows faster than the number of materials.
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
from simulation.lab.materials import NewMaterial, build_inventory
from simulation.offline.hidden_steps.protocol_runs import run_protocol
from simulation.offline.rules import RuleBasedTransitionModel

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
SIZES = (10, 100, 1000)  # the first is the baseline
ROUNDS_PER_BENCH, BENCHES = 5, 7  # rounds of the four actions on one bench; number of benches, whose median counts
TOLERANCE = 1.5  # a step may take this much longer than in proportion to the materials, because of timing noise


def create_tube(number: int) -> NewMaterial:
    """Return a half-full tube of salt water."""
    components = {"salt": {"dimension": "amount", "amount": "500", "known": True}}
    return NewMaterial(
        name=f"Tube {number}",
        properties={"phase": "liquid", "volume": "500 µL", "container": "1 mL tube", "container_capacity": "1 mL"},
        ledger={"key": f"tube_{number}", "components": components, "origins": {f"tube_{number}": "1"}, "volume": "500"},
    )


def run_rounds(bench: Bench, model: RuleBasedTransitionModel) -> int:
    """Transfer, mix, measure and wait, always with the first two materials; return the number of steps. None is rejected."""
    first, second = (material.barcode for material in bench.inventory.materials[:2])
    actions = (
        Action("Transfer", (first, second), {"source": first, "amount": "1 µL"}),
        Action("Mix", (second,), {}),
        Action("MeasureVolume", (second,), {}),
        Action("Wait", (first,), {"duration": "1 min"}),
    )
    for action in actions * ROUNDS_PER_BENCH:
        step = bench.take_step(action, model)
        assert step.outcome.success, step.outcome.failure_reason
    return len(bench.history)


def measure_step_time(size: int, actions: Catalogue) -> float:
    """Return the median processor time per step, in seconds, over several benches with this many materials."""
    times = []
    for seed in range(BENCHES):
        bench = Bench("bench", actions, build_inventory(map(create_tube, range(size)), seed), seed, 1000)
        times.append(time_steps(partial(run_rounds, bench, RuleBasedTransitionModel(seed))))
    return median(times)


def measure_protocol_step_time(actions: Catalogue) -> float:
    """Return the same over all reference protocols, including the agent's planning and the classifier's verdict."""
    specs = [spec for spec, _ in experiments.load_experiments(FIXTURES / "experiments", actions)]
    return time_steps(lambda: sum(run_protocol(spec, actions, seed=1).steps for spec in specs))


def time_steps(steps: Callable[[], int]) -> float:
    started = time.process_time()
    number = steps()
    return (time.process_time() - started) / number


def main() -> int:
    actions, _ = catalogue.load_catalogue(FIXTURES / "actions")
    measure_step_time(SIZES[0], actions)  # warm-up: the first use compiles patterns and fills caches
    times = {size: measure_step_time(size, actions) for size in SIZES}
    baseline = times[SIZES[0]]
    print(f"Offline steps on one core. Baseline: a bench of {SIZES[0]} materials, {1000 * baseline:.2f} ms per step.")
    print(f"{'bench':>28}  {'steps/s':>8}  {'time / baseline':>15}  {'materials / baseline':>20}")
    for size, seconds in times.items():
        name = f"{size} materials"
        print(f"{name:>28}  {1 / seconds:8.0f}  {seconds / baseline:15.2f}  {size / SIZES[0]:20.0f}")
    protocol_time = measure_protocol_step_time(actions)
    print(f"{'reference protocols, judged':>28}  {1 / protocol_time:8.0f}  {protocol_time / baseline:15.2f}")
    too_slow = [more for less, more in pairwise(SIZES) if times[more] > TOLERANCE * times[less] * more / less]
    print(f"Growth: {'FASTER THAN LINEAR at ' + ', '.join(map(str, too_slow)) if too_slow else 'linear or better'}.")
    return 1 if too_slow else 0


if __name__ == "__main__":
    sys.exit(main())
