"""Shares computed from a transcript are compared with a hidden tracer dye in every liquid of the bench."""

from dataclasses import replace
from decimal import Decimal

import pytest

from simulation.lab.bench import Bench
from simulation.lab.materials import UNLIMITED, Inventory, build_inventory
from simulation.offline.evidence import collect_readings
from simulation.offline.vessels import Vessel
from tests.support.wild_play import iter_wild_steps

SEED = 4


def dyed(spec):
    """Return the bench with one unit of a hidden dye per microlitre of every liquid, and the dye of each liquid."""
    materials, dyes = [], {}
    for material in build_inventory(spec.initial_materials(), SEED):
        contents = Vessel.from_material(material, 0).contents
        if contents.volume:
            dye = {"dimension": "count", "amount": str(contents.volume), "known": False, "kind": "dissolved"}
            # A number as name, because the key could name a class of substances that heat destroys.
            name = f"dye {len(dyes)}"
            components = {**material.ledger["components"], name: dye}
            material = replace(material, ledger={**material.ledger, "components": components})
            dyes[material.name] = name
        materials.append(material)
    return Inventory(tuple(materials)), dyes


def after_each(spec, bench):
    """Yield the inventory after each step."""
    again = Bench(spec.goal, bench.catalogue, dyed(spec)[0], SEED, 10**6)
    found = {}
    for step in bench.history:
        again.record_outcome(step.action, step.outcome)
        found[step.number] = again.inventory
    return found


@pytest.mark.parametrize("steps", [60])
def test_reported_shares_match_a_tracer_dye_within_one_percent(lab, steps):
    mixed = 0
    for spec in lab.specs.values():
        inventory, dyes = dyed(spec)
        *_, (_, _, bench) = iter_wild_steps(spec, lab.catalogue, inventory, SEED, steps)
        there = after_each(spec, bench)
        for reading in collect_readings(bench.get_transcript()):
            material = there[reading.step].get(reading.barcode)
            if material.available_for_use == UNLIMITED or not material.is_usable:
                continue
            contents = Vessel.from_material(material, 0).contents
            for name in dyes.keys() & reading.shares.keys() if contents.volume else ():
                true = contents.get_amount(dyes[name])
                assert true is not None, (spec.slug, reading.step, material.name, name)
                claimed, true = reading.shares[name], true / contents.volume
                assert abs(claimed - true) <= Decimal("0.01") * true + Decimal("0.0001"), (
                    spec.slug, reading.step, reading.action, material.name, name, claimed, true
                )  # fmt: skip
                mixed += Decimal("0.01") < claimed < Decimal("0.99")
    assert mixed > 100, "too few mixtures to have tested anything"
