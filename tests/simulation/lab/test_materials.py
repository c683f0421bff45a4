"""Barcodes, and the inventory after a step."""

import re

from simulation.lab.materials import (
    NOT_AVAILABLE,
    UNLIMITED,
    Inventory,
    Material,
    NewMaterial,
    build_inventory,
    make_barcode,
    make_unused_barcode,
)


def build_three_materials():
    return build_inventory(
        (
            NewMaterial("Water", {}, available_for_use=UNLIMITED),
            NewMaterial("Sample", {"volume": "1 mL"}),
            NewMaterial("Tube", {}),
        ),
        seed=7,
    )


def test_barcode_is_the_prefix_mat_and_eight_letters_or_digits():
    assert all(re.fullmatch(r"MAT-[A-Z0-9]{8}", make_barcode(seed, 1, 2)) for seed in range(200))


def test_barcode_depends_on_seed_step_and_index():
    assert make_barcode(1, 2, 3) == make_barcode(1, 2, 3)
    assert len({make_barcode(seed, step, index) for seed in range(5) for step in range(5) for index in range(5)}) == 125


def test_barcode_already_on_the_bench_is_not_reused():
    first = make_unused_barcode(1, 2, 3, ())
    assert make_unused_barcode(1, 2, 3, {first}) not in ("", first)


def test_input_that_is_not_returned_is_used_up():
    inventory = build_three_materials()
    _, sample, tube = inventory
    after = inventory.after_step((), (), [sample.barcode], now=60)
    assert after[sample.barcode].available_for_use == NOT_AVAILABLE
    assert after[sample.barcode].last_modified == 60
    assert after[tube.barcode] == tube


def test_unlimited_input_stays_unchanged():
    inventory = build_three_materials()
    water = inventory.materials[0]
    assert inventory.after_step((), (), [water.barcode], now=60)[water.barcode] == water


def test_returned_material_keeps_its_barcode_position_and_creation_time():
    inventory = build_three_materials()
    sample = inventory.materials[1]
    left = NewMaterial("Sample", {"volume": "400 µL"}, replaces=sample.barcode)
    after = inventory.after_step(
        (left, NewMaterial("Aliquot", {})), (sample.barcode, "MAT-NEWNEWNE"), [sample.barcode], now=60
    )
    assert [m.name for m in after] == ["Water", "Sample", "Tube", "Aliquot"]
    assert after[sample.barcode].properties == {"volume": "400 µL"}
    assert (after[sample.barcode].created_at, after[sample.barcode].last_modified) == (0, 60)
    assert (after["MAT-NEWNEWNE"].created_at, after["MAT-NEWNEWNE"].last_modified) == (60, 60)


def test_visible_material_does_not_contain_the_ledger():
    material = Material("MAT-A1B2C3D4", "Tea", {}, UNLIMITED, "static", "4C", 0, 0, ledger={"caffeine": "LEAK"})
    assert "LEAK" not in repr(material.to_visible()) and "ledger" not in material.to_visible()
    assert Material.from_json(material.to_json()) == material


def test_inventory_round_trips_through_json():
    inventory = build_three_materials()
    assert Inventory.from_json(inventory.to_json()) == inventory
