"""Any action with any allowed parameters on unusual materials gives an outcome or a reason, and never crashes."""

import random
from decimal import Decimal

import pytest

from simulation.lab import quantities
from simulation.lab.actions import Action
from tests.support.laboratory_factory import SmallLab, build_material, build_tubes
from tests.support.wild_play import NEVER, draw_wild_action

CELLS = {"HeLa cells": "333333 cells"}


def build_plate(condition="4C"):
    shown = {"phase": "suspension", "volume": "100 µL", "container": "well", "container_capacity": "340 µL"}
    held = {"E coli cells": {"concentration": "1e6 cells/mL", "known": False}}
    wells = [{"well": "A1", "key": "a1", "name": "well one", "properties": shown, "contents": held}]
    return build_material("plate", "plate", None, None, "96-well plate", condition=condition) | {"wells": wells}


def build_odd_materials():
    sediment = build_material("sediment", "pellet and supernatant", hidden={**CELLS, "beads": "3 mg"})
    sediment["contents"]["beads"]["kind"] = "particles"
    coated = build_material("coated", "liquid", "100 µL", "340 µL", "well of a plate", contents={"film": "1 µg/mL"})
    coated["contents"]["film"]["kind"] = "attached"
    return [
        build_material("liquid", contents={"salt": "10 mM", "dye": "3 µg/mL"}, hidden={"virus": "7e5 TU/mL"}),
        build_material(
            "medium", volume="2 L", capacity="5 L", container="glass bottle", pH="about 7", density="1.02 g/mL"
        ),
        build_material("vial", "liquid", "1 mL", "2 mL", "HPLC vial", contents={"ethanol": "100 µL"}),
        build_material("frozen", "frozen", condition="-80C", hidden=CELLS),
        build_material("frozen_unknown", "frozen", None, "50 mL", condition="-20C"),
        build_material("empty", "empty container", None, "10 mL", "filter crucible"),
        build_material("agar", "gel", None, None, "petri dish", hidden={"colonies": "17"}),
        build_material("solid", "solid", None, mass="10 mg", contents={"salt": "171.12 µmol", "water": "77.7 µg"}),
        build_material("nameless_powder", "powder", None),
        build_material("tissue", "tissue", None, None, "dish"),
        build_material("tablets", "solid", None, mass="1 g", **{"tablet mass": "0 mg"}),
        build_material("pellet", "pellet", None, hidden=CELLS),
        sediment,
        build_material("dish", "adherent culture", "2 mL", "5 mL", "dish", hidden=CELLS),
        coated,
        build_material("unknown_volume", "liquid", None, "50 mL"),
        build_material("unknown_capacity", "liquid", "1 mL", None, "odd thing"),
        build_material("nothing_left", "liquid", "0 µL"),
        build_material("brimful", "liquid", "2 mL", "2 mL", dead_volume="1.9 mL"),
        build_material("tap", "liquid", None, None, "carboy", unlimited=True),
        build_material("brine", "liquid", "10 L", "20 L", "carboy", unlimited=True, contents={"salt": "1 M"}),
        build_material("sugar", "powder", None, None, "jar", unlimited=True, mass="1 kg"),
        build_material("tool", "consumable", None, None, "single tool"),
        build_tubes(),
        build_tubes("wells", "340 µL", "well of a 96-well plate"),
        build_plate(),
    ]


def build_odd_lab(catalogue, seed=3):
    return SmallLab(catalogue, *build_odd_materials(), seed=seed)


def find_impossible_volume(small):
    """Return a vessel with more than its capacity or a negative volume, or None."""
    for placed in small.bench.inventory:
        volume, room = Decimal(placed.ledger.get("volume") or 0), placed.properties.get("container_capacity")
        too_much = (
            room
            and placed.available_for_use != "unlimited"
            and volume > quantities.parse_quantity(room, "volume").value
        )
        if volume < 0 or too_much:
            return placed
    return None


@pytest.mark.parametrize("seed", range(3))
def test_rules_return_an_outcome_or_a_rejection_with_a_reason_for_any_action(lab, seed):
    rng, accepted = random.Random(seed), set()
    for name, kind in sorted(lab.catalogue.types.items()):
        if name in NEVER:
            continue
        small = build_odd_lab(lab.catalogue, seed)
        for _ in range(8):
            before = small.bench.inventory
            step = small.bench.take_step(draw_wild_action(kind, before.list_usable(), rng), small.model)
            if step.outcome.success:
                accepted.add(name)
                assert find_impossible_volume(small) is None, step.action
                assert before.get(small.codes["brine"]) == small["brine"]
            else:
                assert len(step.outcome.failure_reason) > 10
                assert small.bench.inventory == before
    assert len(accepted) > 35, "too little was possible to have tested anything"


def test_tablets_without_a_known_mass_are_not_counted(lab):
    assert build_odd_lab(lab.catalogue).read_values("MeasureCount", "tablets") == [""]


def test_titration_accepts_a_ph_given_in_words(lab):
    small = build_odd_lab(lab.catalogue)
    seen = small.read_values("AdjustpH", "liquid medium", titrant="@medium", target_ph="7", titrant_volume="5 µL")
    assert seen == [""]


def test_dna_extraction_from_an_empty_container_is_rejected(lab):
    refused = build_odd_lab(lab.catalogue).get_rejection("AttemptDNAExtraction", "empty")
    assert refused == "wrong phase: empty is empty container; there is nothing to extract DNA from"


def test_unnamed_dry_residue_has_no_mass_and_an_empty_vessel_weighs_nothing(lab):
    small = build_odd_lab(lab.catalogue)
    assert small.read_values("MeasureWeight", "nameless_powder") == [""]
    (weighed,) = small.read_values("MeasureWeight", "empty", replicates=10, balance="bench")
    masses = [text.removesuffix(" g") for text in weighed.split(", ")]
    # The last digit of this balance is 0.01 g, and readings scatter by that much.
    assert all(abs(Decimal(mass)) <= Decimal("0.05") for mass in masses)
    assert "0.00" in masses and "-0.00" not in masses


def test_sediment_is_counted_only_if_stirred(lab):
    # 333333 cells in 1 mL, all of them in the pellet; a reading scatters by 5 %
    small = build_odd_lab(lab.catalogue)
    step = small.run_step("CountLiquidParticles", "sediment", sample_volume="100 µL", replicates=1, stir=False)
    assert [seen.value for seen in step.outcome.new_observations] == [""]
    small = build_odd_lab(lab.catalogue)
    values = small.read_values("CountLiquidParticles", "sediment", sample_volume="100 µL", replicates=1, stir=True)
    assert any(abs(int(value.split()[0]) - 333333) < 80000 for value in values)


def test_a_cell_counter_needs_a_range_of_sizes(lab):
    refused = build_odd_lab(lab.catalogue).get_rejection(
        "CellCounter", "sediment", minimum_diameter="18 µm", maximum_diameter="1 µm"
    )
    assert refused == "empty range: minimum_diameter is not below maximum_diameter"


def test_wells_separated_from_a_frozen_plate_are_frozen(lab):
    small = build_odd_lab(lab.catalogue)
    assert small.run_step("Storage", "plate", condition="-80C").outcome.success
    small.run_step("SeparateWells", "plate", labels="well", grouping="each well")
    assert (small.get_property("well", "phase"), small["well"].environmental_condition) == ("frozen", "-80C")


@pytest.mark.parametrize(("action", "parameters"), [("Autoclave", {}), ("Incubate", {"temperature": "37 °C"})])
def test_rules_reject_a_whole_plate_whose_wells_were_not_separated(lab, action, parameters):
    refused = build_odd_lab(lab.catalogue).get_rejection(action, "plate", **parameters)
    assert refused == "wrong phase: plate is a whole plate; separate its wells first"


def test_measurement_of_nothing_but_a_blank_takes_the_time_of_one_sample(lab):
    small = build_odd_lab(lab.catalogue)
    done = small.run_step("UsePhotospectrometer", "liquid", blank="@liquid", mode="absorbance", wavelength="500 nm")
    # 2 min for each sample, of which the blank is the only one
    assert (done.outcome.success, done.ended_at) == (True, 120)


def test_reagent_volumes_are_rounded_to_the_smallest_amount(lab):
    small = build_odd_lab(lab.catalogue)
    codes = [small.codes["liquid"], small.codes["medium"]]
    written = {"primary_antibody": codes[1], "primary_dilution": "31", "antibody_volume": "10 µL"}
    assert small.bench.take_step(Action("CapillaryWestern", tuple(codes), written), small.model).outcome.success
    assert -Decimal(small["medium"].ledger["volume"]).as_tuple().exponent <= 12


@pytest.mark.parametrize("label", [" ", "\u200b", "\u202e \ufeff"])
def test_label_of_invisible_characters_is_ignored(lab, label):
    small = build_odd_lab(lab.catalogue)
    names = [
        small.run_step("Aliquot", "liquid tubes", volume="10 µL", label=label),
        small.run_step("DNASynthesis", "", sequences="ACGT", label=label),
        small.run_step(
            "PrepareReferenceElectrode", "", type="Ag/AgCl", filling_solution="3 M KCl in water", label=label
        ),
    ]
    assert [step.outcome.failure_reason for step in names] == ["", "", ""]
    made = [step.outcome.new_materials[-1].name for step in names]
    assert made == ["Aliquot 1 of liquid", "DNA 1, 4 nt", "Reference electrode, Ag/AgCl"]
