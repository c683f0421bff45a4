"""Barcodes and what becomes of the bench after a step."""

import re

from simulation.lab.materials import (
    NOT_AVAILABLE,
    UNLIMITED,
    Draft,
    Inventory,
    Material,
    barcode,
    fresh_barcode,
    place_all,
)


def bench():
    return place_all(
        (Draft("Water", {}, available_for_use=UNLIMITED), Draft("Sample", {"volume": "1 mL"}), Draft("Tube", {})),
        seed=7,
    )


def test_a_barcode_is_mat_and_eight_letters_or_digits():
    assert all(re.fullmatch(r"MAT-[A-Z0-9]{8}", barcode(seed, 1, 2)) for seed in range(200))


def test_the_same_seed_and_place_give_the_same_barcode_and_others_another():
    assert barcode(1, 2, 3) == barcode(1, 2, 3)
    assert len({barcode(seed, step, index) for seed in range(5) for step in range(5) for index in range(5)}) == 125


def test_a_barcode_already_on_the_bench_is_not_given_again():
    first = fresh_barcode(1, 2, 3, ())
    assert fresh_barcode(1, 2, 3, {first}) not in ("", first)


def test_a_touched_material_that_is_not_handed_back_is_used_up():
    inventory = bench()
    _, sample, tube = inventory
    after = inventory.changed((), (), [sample.barcode], now=60)
    assert after[sample.barcode].available_for_use == NOT_AVAILABLE
    assert after[sample.barcode].last_modified == 60
    assert after[tube.barcode] == tube


def test_a_touched_unlimited_material_stays_as_it_is():
    inventory = bench()
    water = inventory.materials[0]
    assert inventory.changed((), (), [water.barcode], now=60)[water.barcode] == water


def test_a_handed_back_material_keeps_barcode_place_and_birth():
    inventory = bench()
    sample = inventory.materials[1]
    left = Draft("Sample", {"volume": "400 µL"}, replaces=sample.barcode)
    after = inventory.changed((left, Draft("Aliquot", {})), (sample.barcode, "MAT-NEWNEWNE"), [sample.barcode], now=60)
    assert [m.name for m in after] == ["Water", "Sample", "Tube", "Aliquot"]
    assert after[sample.barcode].properties == {"volume": "400 µL"}
    assert (after[sample.barcode].created_at, after[sample.barcode].last_modified) == (0, 60)
    assert (after["MAT-NEWNEWNE"].created_at, after["MAT-NEWNEWNE"].last_modified) == (60, 60)


def test_what_is_seen_of_a_material_holds_nothing_of_the_ledger():
    material = Material("MAT-A1B2C3D4", "Tea", {}, UNLIMITED, "static", "4C", 0, 0, ledger={"caffeine": "LEAK"})
    assert "LEAK" not in repr(material.seen()) and "ledger" not in material.seen()
    assert Material.from_json(material.to_json()) == material


def test_an_inventory_survives_json():
    inventory = bench()
    assert Inventory.from_json(inventory.to_json()) == inventory
