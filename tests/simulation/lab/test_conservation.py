"""Conservation of matter: sums over random sequences of moves stay exact in decimal arithmetic."""

import random
from collections import Counter
from decimal import Decimal, localcontext

import pytest

from simulation.lab import quantities
from simulation.offline.ledger import find_original
from tests.support.data_files import CATALOGUE
from tests.support.laboratory_factory import SmallLab, build_material, build_tubes

STEPS = 90


def build_crowded_lab(seed):
    beads = build_material(
        "beads", "suspension", "1.7 mL", "5 mL", contents={"salt": "0.3 mM"}, hidden={"DNA beads": "7.3 µg"}
    )
    beads["contents"]["DNA beads"]["kind"] = "particles"
    return SmallLab(
        CATALOGUE,
        build_material("stock", volume="3.7 mL", capacity="10 mL", contents={"salt": "10 mM", "dye": "3 µg/mL"}, hidden={"virus": "7e5 TU/mL"}),
        build_material("water", volume="90 mL", capacity="100 mL"),
        build_material("cells", "suspension", "10 mL", "50 mL", hidden={"HeLa cells": "1.1e5 cells/mL", "fines": "3 mg"}),
        build_material("dish", "adherent culture", "2 mL", "5 mL", "dish", hidden={"HeLa cells": "333333 cells"}, contents={"dye": "1 ng/µL"}),
        build_material("powder", "powder", None, mass="10 mg", contents={"salt": "171.12 µmol", "water": "77.7 µg"}),
        build_material("trough", volume="7.77 mL", capacity="20 mL", contents={"dye": "7 µg/mL", "ethanol": "1.1 mL"}, dead_volume="333 µL"),
        beads,
        build_material("crucible", "empty container", None, "10 mL", "filter crucible"),
        build_tubes(),
        build_tubes("plates", "3.4 mL", "well of a plate"),
        truth={"retained": {"fines": "1 µm"}},
        seed=seed,
    )  # fmt: skip


def sum_amounts(bench):
    """Sum every component, the shares of every origin and the volume over all limited materials, used-up ones included."""
    found = Counter()
    for placed in bench.inventory:
        if placed.available_for_use == "unlimited":
            continue
        for name, part in placed.ledger["components"].items():
            # Dead, inactive and degraded forms count with the component that they were.
            found[find_original(name)] += Decimal(part["amount"])
        for key, share in placed.ledger["origins"].items():
            found[f"share of {key}"] += Decimal(share)
        found["volume"] += Decimal(placed.ledger.get("volume") or 0)
    return {name: total for name, total in found.items() if total}


def choose_move(small, rng):
    """Return the action, materials and parameters of a random move, possible or not."""
    usable = [m.barcode for m in small.bench.inventory if m.is_usable and m.available_for_use != "unlimited"]
    one, other, third = (rng.choice(usable) for _ in range(3))
    boxes = (small.codes["tubes"], small.codes["plates"])
    volume = f"{rng.randint(1, 20000) / 7:.6f} µL"
    return rng.choice([
        ("Transfer", [one, other, third], {"source": one, "amount": volume}),
        ("Transfer", [one, rng.choice(boxes), other], {"source": one, "amount": volume}),
        ("Transfer", [one, other], {"source": one}),
        ("Transfer", [one, boxes[0]], {"source": one, "mass": "1.3 mg"}),
        ("Aliquot", [one, rng.choice(boxes)], {"volume": volume, "count": rng.randint(1, 4)}),
        ("SerialDilute", [one, other, boxes[0]], {"diluent": other, "factor": "3.3", "dilutions": 3, "transfer_volume": volume}),
        ("Dilute", [one, other], {"solvent": other, "volume": volume}),
        ("FillToVolume", [one, other], {"solvent": other, "total_volume": "1.9 mL"}),
        ("Combine", [one, other, boxes[1]], {}),
        ("Filter", [one, boxes[0]], {"volume": volume, "discard_first": "3.3 µL", "pore_size": "0.45 µm"}),
        ("Centrifuge", [one, other], {}),
        ("Aspirate", [one], {"volume": volume, "keep_supernatant": rng.random() < 0.5}),
        ("Resuspend", [one, other], {"solvent": other, "volume": volume}),
        ("Wash", [one, other, third],
         {"wash_medium": other, "replacement_medium": third, "wash_volume": volume, "replacement_volume": "77.7 µL", "washes": 2}),
        ("Mix", [one], {}),
        ("Discard", [one], {}) if rng.random() < 0.2 else ("Degas", [one], {}),
        ("Aspirate", [one], {"residual_volume": volume}),
        ("Filter", [one, boxes[0], small.codes["crucible"], other],
         {"volume": volume, "keep_residue": True, "residue_wash": other, "residue_wash_volume": "333.3 µL"}),
        ("AcousticLiquidHandling", [one, other, boxes[1]], {"sources": one, "amount": f"{rng.randint(1, 400) * 2.5} nL"}),
        ("Evaporate", [one], {"target_volume": volume, "duration": f"{rng.randint(60, 3600)} s"}),
        ("Evaporate", [one], {"method": "rotary evaporator"}) if rng.random() < 0.1 else ("Grind", [one], {}),
        ("DryingOven", [one], {"temperature": "70 °C", "duration": f"{rng.randint(300, 7200)} s"})
        if rng.random() < 0.2 else ("Centrifuge", [one, other], {}),
        ("Lyophilize", [one], {}) if rng.random() < 0.1 else ("Desiccate", [one], {}),
        ("AdjustpH", [one, other], {"titrant": other, "target_ph": 7, "titrant_volume": volume}),
        ("ApplyMagnet", [small.codes["beads"], other, boxes[0]], {"wash_buffer": other, "wash_volume": volume, "label": "x"}),
        ("Microwave", [one, other], {"acid": other, "acid_volume": "555.5 µL"}) if rng.random() < 0.2 else ("Mix", [one], {}),
    ])  # fmt: skip


@pytest.mark.parametrize("seed", range(30))
def test_random_moves_conserve_amounts_shares_and_volumes_exactly(seed):
    small, rng = build_crowded_lab(seed), random.Random(seed)
    with localcontext() as context:
        context.prec = 60
        start, done = sum_amounts(small.bench), Counter()
        for number in range(STEPS):
            action, codes, parameters = choose_move(small, rng)
            before = small.bench.inventory
            step = small.run_step_by_barcode(action, list(dict.fromkeys(codes)), parameters)
            done[step.outcome.success] += 1
            if step.outcome.success:
                assert sum_amounts(small.bench) == start, (number, action)
            else:
                assert small.bench.inventory == before
    assert done[True] >= 10, "too few moves were possible to have tested anything"
    assert done[False] >= 1


@pytest.mark.parametrize("seed", range(5))
def test_random_moves_never_fill_a_vessel_beyond_its_capacity(seed):
    small, rng = build_crowded_lab(seed), random.Random(seed)
    for _ in range(STEPS):
        action, codes, parameters = choose_move(small, rng)
        small.run_step_by_barcode(action, list(dict.fromkeys(codes)), parameters)
    held = [m for m in small.bench.inventory if "container_capacity" in m.properties and m.ledger.get("volume")]
    assert len(held) > 10
    for placed in held:
        capacity = quantities.parse_quantity(placed.properties["container_capacity"], "volume").value
        assert Decimal(0) <= Decimal(placed.ledger["volume"]) <= capacity


def test_a_thousand_uneven_aliquots_sum_to_the_original_amount():
    small = build_crowded_lab(1)
    start = sum_amounts(small.bench)
    for _ in range(40):
        assert small.run_step("Aliquot", "stock tubes", volume="1.234567 µL", count=25).outcome.success
    assert len(small.bench.inventory.materials) == 10 + 1000
    assert sum_amounts(small.bench) == start


def test_unknown_amount_stays_unknown_after_a_transfer():
    small = SmallLab(
        CATALOGUE, build_material("soil", contents={"iron": "1 mg"}), build_material("water"), build_tubes()
    )
    ledger = small.bench.inventory.materials[0].ledger
    ledger["components"]["iron"]["amount"] = ""  # unknown to the simulation as well
    small.run_step("Transfer", "soil water", source="@soil", amount="100 µL")
    assert small["water"].ledger["components"]["iron"]["amount"] == ""
    assert small["soil"].ledger["components"]["iron"]["amount"] == ""
    # A label names what is in the material, also if nobody knows how much.
    assert [small.get_property(key, "iron amount") for key in ("soil", "water")] == ["not determined"] * 2
    assert not any(small.get_property(key, "iron concentration") for key in ("soil", "water"))
