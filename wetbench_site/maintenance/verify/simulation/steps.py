"""Checks of steps: each starts with the materials that earlier steps left, and its columns equal its stored text."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from simulation.lab.bench import Step, step_from_json
from simulation.lab.materials import Inventory, fresh_barcode
from simulation.models import Transition
from simulation.runs import laboratory
from wetbench_site.maintenance.verify.form import Wrong, check, rows, wrong

_SHOWN = (
    "episode_id", "code", "number", "action_name", "accepted", "rejected_by", "content_sha256", "step",
    "episode__seed", "episode__initial",
)  # fmt: skip
Row = dict[str, Any]


@check("texts of steps", "the columns of a step equal its stored text, and its digest matches", Transition)
def texts_of_steps() -> Iterator[Wrong]:
    for row in rows(Transition.objects.order_by("pk").values(*_SHOWN[1:8])):
        step = step_from_json(row["step"])
        expected = {
            "number": step.number,
            "action_name": step.action.name[:80],
            "accepted": step.outcome.success,
            "rejected_by": str(step.outcome.rejected_by),
            "content_sha256": laboratory.content_digest(step),
        }
        for name, value in expected.items():
            if row[name] != value:
                yield wrong(Transition, row["code"], f"{name} {value}", row[name])


@check("benches of steps", "a step starts with the materials and the time that earlier steps left", Transition)
def benches_of_steps() -> Iterator[Wrong]:
    in_order = Transition.objects.order_by("episode_id", "number").values(*_SHOWN)
    for _, steps in groupby(rows(in_order), lambda row: row["episode_id"]):
        yield from _played(steps)


def _played(steps: Iterator[Row]) -> Iterator[Wrong]:
    """Yield the first step that does not fit the steps before it."""
    bench, clock = None, 0
    for row in steps:
        bench = bench or Inventory.from_json(row["episode__initial"])
        step = step_from_json(row["step"])
        if problem := _problem(step, bench, clock, row["episode__seed"]):
            yield wrong(Transition, row["code"], *problem)
            break  # later steps cannot be checked without its materials
        clock = step.ended_at
        if step.outcome.success:
            touched = [material.barcode for material in step.inputs]
            bench = bench.changed(step.outcome.new_materials, step.barcodes, touched, clock)


def _problem(step: Step, bench: Inventory, clock: int, seed: int) -> tuple[object, object] | None:
    """Return the expected and the stored state of the step if they differ, else None."""
    if step.started_at != clock or step.ended_at < clock:
        return f"started at {clock} s", f"from {step.started_at} to {step.ended_at} s"
    materials = tuple(material for code in step.action.materials if (material := bench.get(code)))
    if materials != step.inputs:
        return "the materials as the steps before left them", _apart(step, bench)
    if (codes := _barcodes(step, bench, seed)) != step.barcodes:
        return f"barcodes {', '.join(codes)}", ", ".join(step.barcodes)
    return None


def _apart(step: Step, bench: Inventory) -> str:
    codes = [material.barcode for material in step.inputs if bench.get(material.barcode) != material]
    return f"different ones under {', '.join(codes)}" if codes else "other materials than its action names"


def _barcodes(step: Step, bench: Inventory, seed: int) -> tuple[str, ...]:
    used_codes, codes = {material.barcode for material in bench}, []
    for index, new_material in enumerate(step.outcome.new_materials):
        codes.append(new_material.replaces or fresh_barcode(seed, step.number, index, used_codes))
        used_codes.add(codes[-1])
    return tuple(codes)


CHECKS = (texts_of_steps, benches_of_steps)
