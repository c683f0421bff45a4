"""Checks of steps: each starts with the materials that earlier steps left, and its columns equal its stored text."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from simulation.lab.bench import Step, step_from_json
from simulation.lab.materials import Inventory, make_unused_barcode
from simulation.models import Transition
from simulation.runs import benches
from wetbench_site.maintenance.verify.checks import Violation, build_check, build_violation, iter_rows

_COLUMNS = (
    "episode_id", "code", "number", "action_name", "accepted", "rejected_by", "content_sha256", "step",
    "episode__seed", "episode__initial",
)  # fmt: skip
StepRow = dict[str, Any]


@build_check("texts of steps", "the columns of a step equal its stored text, and its digest matches", Transition)
def check_step_columns() -> Iterator[Violation]:
    for row in iter_rows(Transition.objects.order_by("pk").values(*_COLUMNS[1:8])):
        step = step_from_json(row["step"])
        expected = {
            "number": step.number,
            "action_name": step.action.name[:80],
            "accepted": step.outcome.success,
            "rejected_by": str(step.outcome.rejected_by),
            "content_sha256": benches.compute_content_digest(step),
        }
        for name, value in expected.items():
            if row[name] != value:
                yield build_violation(Transition, row["code"], f"{name} {value}", row[name])


@build_check("benches of steps", "a step starts with the materials and the time that earlier steps left", Transition)
def check_step_benches() -> Iterator[Violation]:
    in_order = Transition.objects.order_by("episode_id", "number").values(*_COLUMNS)
    for _, steps in groupby(iter_rows(in_order), lambda row: row["episode_id"]):
        yield from _replay_episode(steps)


def _replay_episode(steps: Iterator[StepRow]) -> Iterator[Violation]:
    """Yield the first step that does not fit the steps before it."""
    bench, clock = None, 0
    for row in steps:
        bench = bench or Inventory.from_json(row["episode__initial"])
        step = step_from_json(row["step"])
        if problem := _find_problem(step, bench, clock, row["episode__seed"]):
            yield build_violation(Transition, row["code"], *problem)
            break  # later steps cannot be checked without its materials
        clock = step.ended_at
        if step.outcome.success:
            touched = [material.barcode for material in step.inputs]
            bench = bench.after_step(step.outcome.new_materials, step.barcodes, touched, clock)


def _find_problem(step: Step, bench: Inventory, clock: int, seed: int) -> tuple[object, object] | None:
    """Return the expected and the stored state of the step if they differ, else None."""
    if step.started_at != clock or step.ended_at < clock:
        return f"started at {clock} s", f"from {step.started_at} to {step.ended_at} s"
    materials = tuple(material for code in step.action.materials if (material := bench.get(code)))
    if materials != step.inputs:
        return "the materials as the steps before left them", _describe_difference(step, bench)
    if (codes := _compute_barcodes(step, bench, seed)) != step.barcodes:
        return f"barcodes {', '.join(codes)}", ", ".join(step.barcodes)
    return None


def _describe_difference(step: Step, bench: Inventory) -> str:
    codes = [material.barcode for material in step.inputs if bench.get(material.barcode) != material]
    return f"different ones under {', '.join(codes)}" if codes else "other materials than its action names"


def _compute_barcodes(step: Step, bench: Inventory, seed: int) -> tuple[str, ...]:
    used_codes, codes = {material.barcode for material in bench}, []
    for index, new_material in enumerate(step.outcome.new_materials):
        codes.append(new_material.replaces or make_unused_barcode(seed, step.number, index, used_codes))
        used_codes.add(codes[-1])
    return tuple(codes)


CHECKS = (check_step_columns, check_step_benches)
