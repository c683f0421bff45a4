"""Planted errors that need biology or chemistry: each is wrong in the way that its rule states."""

import re
from dataclasses import replace
from decimal import Decimal

import pytest

from simulation.lab import quantities
from simulation.lab.materials import Inventory, NewMaterial
from simulation.lab.outcomes import NOTE, Observation, Perturbation
from simulation.offline.injectors.edits import INJECTORS
from tests.simulation.offline.test_injectors import (
    build_material,
    case,
    collect_properties,
    collect_values,
    is_applicable,
    liquid,
    plant_errors,
    read,
)

OBVIOUS, SUBTLE = Perturbation.OBVIOUS, Perturbation.SUBTLE


def culture(**shown):
    return NewMaterial("Stock", {"phase": "adherent culture", **shown}, replaces="MAT-AAAAAAAA")


def see(*observations, drafts=(), name="Incubate"):
    """Return a step with these (description, value) readings of these materials."""
    seen = [Observation(description, "quantitative", value) for description, value in observations]
    return case(name, drafts, seen)


def note(description, value, drafts=()):
    return case("Dilute", drafts or (liquid(),), (Observation(description, NOTE, value),))


def with_bystanders(example, *names):
    action, situation, outcome = example
    liquids = [build_material(f"MAT-{chr(67 + n) * 8}", name, phase="liquid") for n, name in enumerate(names)]
    inventory = type(situation.inventory)((*situation.inventory, *liquids))
    return action, type(situation)(**{**vars(situation), "inventory": inventory}), outcome


def test_at_least_a_third_of_the_kinds_need_science():
    for kinds in INJECTORS.values():
        assert sum(kind.science for kind in kinds.values()) * 3 >= len(kinds)


# Biology


def test_planted_medium_is_lethal_or_another_medium_of_the_bench():
    example = with_bystanders(case("Incubate", (culture(medium="DMEM"),)), "Ultrapure water", "LB with kanamycin")
    assert collect_properties(plant_errors(OBVIOUS, "lethal_medium", example), 0, "medium") == {"Ultrapure water"}
    assert collect_properties(plant_errors(SUBTLE, "wrong_medium", example), 0, "medium") == {"LB with kanamycin"}
    assert not is_applicable(OBVIOUS, "lethal_medium", case("Incubate", (culture(medium="DMEM"),)))


def test_planted_line_or_species_is_another_one_of_the_bench():
    rat = "primary cortical neurons, embryonic day 18, rat"
    example = case("Incubate", (culture(**{"cell type": "HEK293T"}),))
    [_, water] = example[1].inventory
    # With no other line on the bench, none can be taken for this one.
    assert not is_applicable(SUBTLE, "mixed_up_line", example) and not is_applicable(OBVIOUS, "species_change", example)
    water.properties["cell type"] = "HeLa"
    assert collect_properties(plant_errors(SUBTLE, "mixed_up_line", example), 0, "cell type") == {"HeLa"}
    water.properties["cell type"] = rat
    assert collect_properties(plant_errors(OBVIOUS, "species_change", example), 0, "cell type") == {rat}


def test_planted_line_does_not_contradict_the_name_of_its_vessel():
    named = NewMaterial("HEK293T flask", {"phase": "adherent culture", "cell type": "HEK293T"})
    example = case("Incubate", (named,))
    [_, water] = example[1].inventory
    water.properties["cell type"] = "HeLa"
    assert not is_applicable(SUBTLE, "mixed_up_line", example)


def test_planted_death_leaves_hardly_a_cell_and_planted_weakness_most():
    example = case("Mix", (culture(viability="90 %"),))
    dead = collect_properties(plant_errors(OBVIOUS, "dead_without_cause", example), 0, "viability")
    assert dead and all(Decimal(text.split()[0]) <= 11 for text in dead)
    weak = collect_properties(plant_errors(SUBTLE, "weakened_without_cause", example), 0, "viability")
    # 10 % to 40 % less than 90 % is 54 % to 81 %.
    assert weak and all(54 <= Decimal(text.split()[0]) <= 81 for text in weak)


def test_planted_atmosphere_has_too_much_gas_or_too_little_moisture():
    example = case("Incubate", (culture(**{"carbon dioxide": "5 %", "humidity": "95 %"}),))
    plants = plant_errors(OBVIOUS, "lethal_atmosphere", example)
    assert all(Decimal(text.split()[0]) >= 40 for text in collect_properties(plants, 0, "carbon dioxide"))
    assert all(Decimal(text.split()[0]) <= 15 for text in collect_properties(plants, 0, "humidity"))


def test_planted_genotype_is_the_opposite_or_one_allele_away():
    fish = NewMaterial("Fin", {"phase": "tissue", "genotype": "WT/WT"})
    reversed_types = collect_properties(plant_errors(OBVIOUS, "genotype_reversed", case("Mix", (fish,))), 0, "genotype")
    assert reversed_types == {"nacre/nacre"}
    assert collect_properties(plant_errors(SUBTLE, "allele_lost", case("Mix", (fish,))), 0, "genotype") == {"WT/nacre"}


def test_planted_target_and_insert_are_those_of_another_antibody_and_plasmid():
    antibody = case("Mix", (liquid(target="GFP"),))
    assert collect_properties(plant_errors(SUBTLE, "wrong_target", antibody), 0, "target") == {"mCherry", "beta-actin"}
    clone = case("Mix", (liquid(insert="GFP, sequenced before: sense, in frame, no mutation"),))
    assert collect_properties(plant_errors(SUBTLE, "wrong_insert", clone), 0, "insert") == {"none"}


def test_planted_errors_of_reads_turn_the_strand_the_codon_or_the_length():
    text = (
        "vector-R read: terminator, stop codon TAA, then GFP from base 717 back to base 130, in sense to the promoter"
    )
    example = read(text, "DNASequencing of Stock: reverse read", "instrumental")
    assert collect_values(plant_errors(SUBTLE, "wrong_strand", example)) == {text.replace("in sense", "in antisense")}
    # TGG is tryptophan and TCA serine; neither stops.
    codons = {text.replace("TAA", codon) for codon in ("TGG", "TCA")}
    assert collect_values(plant_errors(SUBTLE, "codon_without_meaning", example)) == codons
    for value in collect_values(plant_errors(OBVIOUS, "read_too_long", example)):
        assert max(int(number) for number in re.findall(r"base (\d+)", value)) >= 2000
    call = read("mitfa codon 113: C only (CAG)", "DNASequencing of PCR 1: base call", "instrumental")
    calls = collect_values(plant_errors(SUBTLE, "codon_without_meaning", call))
    assert calls == {"mitfa codon 113: C only (TAG)"}


# Chemistry


def test_planted_acid_is_as_basic_as_the_culture_is_acidic():
    example = see(("MeasurepH of Stock: pH", "3.74, 3.78"), drafts=(liquid(),))
    assert collect_values(plant_errors(OBVIOUS, "ph_direction_reversed", example)) == {"10.26, 10.22"}
    neutral = see(("MeasurepH of Stock: pH", "7.02, 6.98"), drafts=(liquid(),))
    assert not is_applicable(OBVIOUS, "ph_direction_reversed", neutral)


@pytest.mark.parametrize(("perturbation", "kind", "least", "most"), [(SUBTLE, "ph_drifts", "0.3", "0.9"), (OBVIOUS, "ph_far_off", "3.2", "5")])  # fmt: skip
def test_planted_ph_of_a_named_buffer_is_shifted_in_all_readings(perturbation, kind, least, most):
    example = see(("MeasurepH of Medium, pH 7.0: pH", "7.02, 6.98"), drafts=(liquid(),))
    for value in collect_values(plant_errors(perturbation, kind, example)):
        first, second = map(Decimal, value.split(", "))
        assert first - second == Decimal("0.04") and Decimal(least) <= abs(first - Decimal("7.02")) <= Decimal(most)


def test_planted_standard_reads_off_its_certificate():
    example = see(("MeasureOsmolality of Reference, 290 mOsm/kg: osmolality", "290, 291 mOsm/kg"))
    for value in collect_values(plant_errors(SUBTLE, "standard_off", example)):
        assert 28 <= abs(int(value.split(",")[0]) - 290) <= 117
    for value in collect_values(plant_errors(OBVIOUS, "standard_far_off", example)):
        assert int(value.split(",")[0]) >= 700


def test_planted_counter_ion_differs_from_its_salt():
    salt = liquid(potassium_concentration="2 M", chloride_concentration="2 M")
    for plant in plant_errors(SUBTLE, "counter_ion_off", case("Dilute", (salt,))):
        ions = [plant.outcome.new_materials[0].properties[f"{ion} concentration"] for ion in ("potassium", "chloride")]
        assert sum(text == "2 M" for text in ions) == 1
    mixed = liquid(potassium_concentration="2 M", chloride_concentration="2 M", glucose_concentration="1 mM")
    assert not is_applicable(SUBTLE, "counter_ion_off", case("Dilute", (mixed,)))


def test_planted_filter_holds_back_what_is_dissolved_and_only_in_a_filtration():
    filtrate = liquid("Filtrate", replaces="", caffeine_concentration="100 µg/mL")
    found = collect_properties(
        plant_errors(SUBTLE, "solute_held_by_filter", case("Filter", (filtrate,))), 0, "caffeine concentration"
    )
    amounts = [quantities.parse_quantity(text, "mass_concentration").value for text in found]
    assert amounts and all(59 <= amount <= 91 for amount in amounts)
    lost = collect_properties(
        plant_errors(OBVIOUS, "filter_holds_all", case("Filter", (filtrate,))), 0, "caffeine concentration"
    )
    assert all(quantities.parse_quantity(text, "mass_concentration").value <= 20 for text in lost)
    assert not is_applicable(SUBTLE, "solute_held_by_filter", case("Dilute", (filtrate,)))


def test_planted_voltammogram_has_its_peaks_reversed_or_closer_than_57_mv():
    example = see(
        ("CV of Stock: anodic peak potential", "0.1185 V"), ("CV of Stock: cathodic peak potential", "0.0570 V"),
        ("CV of Stock: anodic peak current", "13.28 µA"), ("CV of Stock: cathodic peak current", "-12.89 µA"),
    )  # fmt: skip
    reversed_peaks = {
        tuple(seen.value for seen in plant.outcome.new_observations)
        for plant in plant_errors(OBVIOUS, "redox_order_reversed", example)
    }
    assert reversed_peaks == {
        ("0.0570 V", "0.1185 V", "13.28 µA", "-12.89 µA"),
        ("0.1185 V", "0.0570 V", "-13.28 µA", "12.89 µA"),
    }
    for plant in plant_errors(SUBTLE, "peaks_too_close", example):
        high, low = (Decimal(seen.value.split()[0]) for seen in plant.outcome.new_observations[:2])
        assert Decimal(0) < high - low < Decimal("0.057")


def test_planted_retention_time_is_shifted_or_before_the_solvent():
    example = see(("HPLC of Stock: caffeine retention time", "5.850 min"), drafts=(liquid(),))
    for value in collect_values(plant_errors(SUBTLE, "retention_off", example)):
        assert Decimal("0.58") < abs(Decimal(value.split()[0]) - Decimal("5.850")) < Decimal("2.35")
    for value in collect_values(plant_errors(OBVIOUS, "before_the_void", example)):
        assert Decimal(value.split()[0]) <= Decimal("0.585")


def test_planted_dilution_is_off_the_line_in_all_its_readings():
    series = [(f"HPLC of Standard 1:{n}: peak area", f"{8000 // n}.0, {8080 // n}.0 mAU·s") for n in (2, 4, 8)]
    for plant in plant_errors(SUBTLE, "off_the_line", see(*series)):
        values = [seen.value for seen in plant.outcome.new_observations]
        [changed] = [n for n, (_, value) in enumerate(series) if values[n] != value]
        before, after = (
            [Decimal(number) for number in re.findall("[0-9.]+", text)]
            for text in (series[changed][1], values[changed])
        )
        ratios = [new / old for old, new in zip(before, after, strict=True)]
        assert abs(ratios[0] - ratios[1]) < Decimal("0.01") and Decimal("0.09") < abs(ratios[0] - 1) < Decimal("0.41")


# Assays


def build_controls(control="not detected", sample="183.5, 182.2 mAU·s"):
    drafts = [liquid("Water blank", replaces=""), liquid("Coffee", replaces="")]
    readings = [("HPLC of Water blank: caffeine peak area", control), ("HPLC of Coffee: caffeine peak area", sample)]
    return see(*readings, drafts=drafts)


def test_planted_control_reads_as_a_sample_and_planted_sample_as_its_control():
    for value in collect_values(plant_errors(OBVIOUS, "control_gives_signal", build_controls())):
        # Within 8 % of what the sample reads.
        assert 168 < Decimal(value.split(",")[0]) < 199
    assert collect_values(plant_errors(OBVIOUS, "sample_gives_none", build_controls()), 1) == {"not detected"}
    assert not is_applicable(OBVIOUS, "control_gives_signal", build_controls(control="180.1, 181.0 mAU·s"))


def test_planted_trace_in_a_blank_is_a_small_part_of_the_sample():
    for value in collect_values(plant_errors(SUBTLE, "trace_in_blank", build_controls())):
        assert 7 <= Decimal(value.split(",")[0]) <= 17  # 4 % to 9 % of 183


def test_planted_gel_has_a_band_without_template_or_one_of_another_length():
    example = see(("Gel lane of PCR 1", "one band at about 350 bp"), ("Gel lane of PCR 2", "no band"))
    plants = plant_errors(SUBTLE, "band_without_template", example)
    lanes = {tuple(seen.value for seen in plant.outcome.new_observations) for plant in plants}
    assert lanes == {("no band", "no band"), ("one band at about 350 bp", "one band at about 350 bp")}
    for value in collect_values(plant_errors(SUBTLE, "band_of_wrong_length", example)):
        assert int(re.search(r"\d+", value)[0]) in range(210, 500, 10)


def test_planted_fluorescence_is_below_darkness_or_its_mean_above_its_peak():
    dark = read("2.303 ΔF/F", "UseMicroscope of Stock: response, peak ΔF/F")
    assert all(
        Decimal(value.split()[0]) < -1 for value in collect_values(plant_errors(OBVIOUS, "darker_than_dark", dark))
    )
    example = see(
        ("UseMicroscope of Stock: mean fluorescence", "2000 counts"),
        ("UseMicroscope of Stock: calcium response amplitude, peak ΔF/F", "2.000 ΔF/F"),
        ("UseMicroscope of Stock: first frame, mean of the field", "700 counts"), drafts=(liquid(),),
    )  # fmt: skip
    for value in collect_values(plant_errors(SUBTLE, "mean_above_peak", example)):
        assert int(value.split()[0]) > 2200  # 700 x (1 + 2) = 2100, and 5 % more


def test_planted_response_rises_more_slowly_than_it_decays():
    example = see(
        ("UseMicroscope of Stock: calcium response rise time, 10 to 90 %", "1.48 s"),
        ("UseMicroscope of Stock: calcium response decay time constant", "37.13 s"), drafts=(liquid(),),
    )  # fmt: skip
    [plant] = {str(plant): plant for plant in plant_errors(OBVIOUS, "slower_rise_than_decay", example)}.values()
    assert [seen.value for seen in plant.outcome.new_observations] == ["37.13 s", "1.48 s"]


def test_planted_loading_control_is_missing_or_off():
    example = see(("CapillaryWestern of Stock: peak area near 42 kDa", "44216, 45225"), drafts=(liquid(),))
    assert collect_values(plant_errors(OBVIOUS, "loading_control_missing", example)) == {"not detected"}
    for value in collect_values(plant_errors(SUBTLE, "loading_control_off", example)):
        assert 4400 <= abs(int(value.split(",")[0]) - 44216) <= 17700


# Notes


def test_planted_note_has_another_volume_number_of_portions_or_source():
    example = with_bystanders(note("Delivered from Stock", "12 × 10.00 mL"), "Acetone")
    for value in collect_values(plant_errors(SUBTLE, "noted_volume_off", example)):
        assert (
            value.startswith("12 × ")
            and 900 <= abs(quantities.parse_quantity(value[5:], "volume").value - 10_000) <= 4100
        )
    portions = collect_values(plant_errors(SUBTLE, "noted_portions_off", example))
    # 10 % to 40 % of 12 portions are one to five.
    assert portions and all(7 <= int(value.split()[0]) <= 17 and value.endswith(" × 10.00 mL") for value in portions)
    sources = {
        plant.outcome.new_observations[0].description for plant in plant_errors(SUBTLE, "wrong_source_noted", example)
    }
    assert sources == {"Delivered from Acetone"}


def test_planted_display_is_off_by_some_degrees_or_lethal_for_cells():
    example = note("Incubator display after 48 h", "37.0 °C, 5.0 % CO2", (culture(**{"cell type": "HeLa"}),))
    for value in collect_values(plant_errors(SUBTLE, "display_off", example)):
        assert 3 <= abs(Decimal(value.split()[0]) - 37) <= 9 and value.endswith(" °C, 5.0 % CO2")
    for value in collect_values(plant_errors(OBVIOUS, "lethal_display", example)):
        assert Decimal(value.split()[0]) >= 62


def test_planted_appearance_is_clear_only_if_cells_can_be_seen():
    for density, fits in (("1000000 cells/mL", False), ("20000000 cells/mL", True)):
        cells = liquid(**{"E. coli cells_concentration": density})
        example = note("Appearance of Stock", "brown, cloudy", (cells,))
        assert is_applicable(SUBTLE, "wrong_turbidity", example) is fits
    assert collect_values(plant_errors(SUBTLE, "wrong_turbidity", example)) == {"brown, clear"}
    assert not is_applicable(SUBTLE, "wrong_turbidity", note("Appearance of Stock", "clear"))


def test_planted_colour_is_violet_where_nothing_is_coloured():
    example = note("Appearance of Stock", "clear")
    assert collect_values(plant_errors(OBVIOUS, "colour_from_nothing", example)) == {"deep violet, clear"}
    assert not is_applicable(OBVIOUS, "colour_from_nothing", with_bystanders(example, "Crystal violet"))
    coffee = note("Appearance of Coffee extract", "clear", (liquid("Coffee extract"),))
    assert not is_applicable(OBVIOUS, "colour_from_nothing", coffee)


def test_planted_source_is_a_powder_or_an_electrode_and_never_a_vessel_or_kit():
    action, situation, outcome = note("Delivered from Stock", "12 × 10.00 mL")
    others = [
        build_material(f"MAT-{letter * 8}", name, phase=phase)
        for letter, name, phase in (
            ("C", "Agarose", "powder"), ("D", "Electrode", "consumable"), ("E", "Tubes", "consumable"),
            ("F", "Extraction kit", "powder"),
        )
    ]  # fmt: skip
    situation = replace(situation, inventory=Inventory((*situation.inventory, *others)))
    plants = plant_errors(OBVIOUS, "source_that_cannot_be_drawn", (action, situation, outcome))
    names = {plant.outcome.new_observations[0].description for plant in plants}
    assert names == {"Delivered from Agarose", "Delivered from Electrode"}


def test_planted_source_is_another_liquid_even_if_many_replicates_have_like_names():
    action, situation, outcome = with_bystanders(
        note("Delivered from Extract 1", "2.00 µL"), *(f"Extract {n}" for n in range(2, 7)), "Acetone"
    )
    stock, *others = situation.inventory
    situation = replace(situation, inventory=Inventory((replace(stock, name="Extract 1"), *others)))
    plants = plant_errors(SUBTLE, "wrong_source_noted", (action, situation, outcome))
    assert {plant.outcome.new_observations[0].description for plant in plants} == {"Delivered from Acetone"}
