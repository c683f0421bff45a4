"""Routine notes: what is noted, with which digits, and that notes are no evidence."""

import re
from decimal import Decimal

import pytest

from simulation.lab import quantities
from simulation.lab.outcomes import NOTE
from simulation.offline.agents import ProtocolAgent, RandomAgent
from simulation.offline.bench_notes import NOTES
from simulation.offline.evidence import collect_readings
from simulation.offline.handlers import HANDLERS
from simulation.offline.volumetric import choose_dispenser, format_delivered_volume
from tests.support.laboratory_factory import SmallLab, build_material, build_tubes


@pytest.fixture
def small(lab):
    return SmallLab(
        lab.catalogue,
        build_material("stock", contents={"salt": "10 mM"}),
        build_material("water", volume="50 mL", capacity="100 mL", container="bottle"),
        build_material("wine", volume="20 mL", capacity="50 mL", container="50 mL tube", appearance="deep red, clear"),
        build_material("bacteria", "suspension", hidden={"E. coli cells": "1e7 cells/mL"}),
        build_material("few_bacteria", "suspension", hidden={"E. coli cells": "9e6 cells/mL"}),
        build_material("uncounted", "suspension", hidden={"E. coli cells": "1e7 cells/mL"}),
        build_material("hela", "suspension", hidden={"HeLa cells": "1e5 cells/mL"}),
        build_material("powder", "powder", None, mass="10 mg", contents={"salt": "171.12 µmol"}),
        build_tubes(),
        build_tubes("big_tubes", "15 mL", "15 mL tube"),
        truth={"retained": {"HeLa cells": "15 µm"}},
    )


def measure_share(benches):
    accepted = [step for bench in benches for step in bench.history if step.outcome.success]
    return sum(bool(step.outcome.new_observations) for step in accepted) / len(accepted), len(accepted)


def test_most_steps_of_the_reference_protocols_have_an_observation(lab):
    share, n_steps = measure_share([lab.play_reference(slug) for slug in lab.specs])
    assert n_steps > 300
    assert share >= 0.9


def test_most_steps_of_careless_and_random_agents_have_an_observation(lab):
    specs = lab.specs.values()
    careless = [lab.play_attempt(spec, ProtocolAgent(spec, 3, lapses=True), 3) for spec in specs]
    assert measure_share(careless)[0] >= 0.9
    random = [lab.play_attempt(spec, RandomAgent(seed), seed) for spec in specs for seed in (1, 2)]
    assert measure_share(random)[0] >= 0.6


def test_no_step_of_a_reference_protocol_has_more_than_four_routine_notes(lab):
    for slug in lab.specs:
        for step in lab.play_reference(slug).history:
            notes = [seen for seen in step.outcome.new_observations if seen.measurement_type == NOTE]
            assert len(notes) <= 4, (slug, step.number)
            assert all(note.value and len(note.description) <= 200 for note in notes)


def test_every_handler_with_notes_exists():
    assert NOTES.keys() <= HANDLERS.keys()


@pytest.mark.parametrize(
    ("microlitres", "text"),
    [
        ("0.5", "0.50 µL"),
        ("7.5", "7.50 µL"),
        ("13", "13.0 µL"),
        ("33.333", "33.3 µL"),
        ("200", "200.0 µL"),
        ("450", "450 µL"),
        ("1000", "1.000 mL"),  # set on a pipette with steps of 1 µL
        ("6850", "6.85 mL"),
        ("15000", "15.0 mL"),  # a graduated pipette
        ("73000", "73 mL"),  # a cylinder
    ],
)
def test_delivered_volume_has_the_digits_of_the_smallest_pipette_that_holds_it(microlitres, text):
    assert format_delivered_volume(Decimal(microlitres)) == text
    assert choose_dispenser(Decimal(microlitres)).largest >= Decimal(microlitres)


def test_equal_portions_are_one_note(small):
    assert small.read_notes("Aliquot", "stock tubes", volume="50 µL", count=3) == [
        ("Delivered from stock", "3 × 50.0 µL")
    ]


def test_filling_a_volumetric_flask_notes_its_mark_and_not_the_volume_delivered(lab):
    flask = build_material(
        "flask", "powder", None, "50 mL", "50 mL volumetric flask", mass="2 g", contents={"salt": "10 mmol"}
    )
    water = build_material("water", volume="100 mL", capacity="200 mL", container="bottle")
    step = SmallLab(lab.catalogue, flask, water).run_step(
        "FillToVolume", "flask water", solvent="@water", total_volume="50 mL"
    )
    notes = {note.description: note.value for note in step.outcome.new_observations}
    assert notes == {"Filled to the mark with water": "50 mL", "Appearance of flask": "clear"}


def test_filling_up_notes_the_range_of_the_volumes_delivered(small):
    small.run_step("Aliquot", "water big_tubes", "a b c", volume="1 mL", count=3)
    small.run_step("Transfer", "water b", source="@water", amount="1 mL")
    small.run_step("Transfer", "water c", source="@water", amount="2 mL")
    # 5 mL less the 1, 2 and 3 mL in the tubes
    notes = small.read_notes("FillToVolume", "a b c water", solvent="@water", total_volume="5 mL")
    assert notes[0] == ("Delivered from water", "3 volumes, 2.00 mL to 4.00 mL")


def test_transfer_of_a_solid_notes_the_mass_as_it_was_weighed(small):
    ((description, value),) = small.read_notes("Transfer", "powder tubes", source="@powder", mass="2.5 mg")
    # Below 10 mg a microbalance shows 0.001 mg; 2.5 mg and at most 3 % more or less
    assert description == "Delivered from powder" and re.fullmatch(r"0\.002[45]\d\d g", value)
    weighed = small.bench.history[-1].outcome.new_materials[-1].properties["mass"]
    assert weighed == quantities.format_quantity(Decimal(value.removesuffix(" g")) * 10**6, "mass")


def test_incubation_notes_a_display_near_the_set_temperature(small):
    (display, appearance) = small.read_notes("Incubate", "stock", temperature="37 °C", duration="2 h")
    assert display[0] == "Incubator display after 2 h"
    assert abs(Decimal(display[1].removesuffix(" °C")) - 37) <= Decimal("0.5")  # five standard deviations of 0.1 °C
    assert appearance == ("Appearance of stock", "clear")


@pytest.mark.parametrize(
    ("key", "appearance"),
    [
        ("stock", ["clear"]),
        ("wine", ["deep red, clear"]),  # as declared
        ("bacteria", ["cloudy"]),  # 1e7 per mL of 1 µm: 1e7 µm² per mL
        ("few_bacteria", []),  # below the limit, so neither is certain
        ("hela", ["cloudy"]),  # 1e5 per mL of 15 µm: 1e5 x 225 = 2.25e7 µm² per mL
    ],
)
def test_appearance_follows_from_the_state_or_is_left_out(small, key, appearance):
    notes = small.read_notes("Mix", key, method="vortex", duration="10 s")
    assert [value for _, value in notes] == appearance


def test_a_note_is_no_reading_of_its_material(lab):
    bench = lab.play_reference("caffeine-hplc-analysis")
    steps = [step for step in bench.get_transcript() if step.action == "Aliquot"]
    assert all(step.observations for step in steps)
    readings = [reading for reading in collect_readings(bench.get_transcript()) if reading.action == "Aliquot"]
    assert readings
    assert all(reading.observations == () for reading in readings)


def test_right_and_wrong_steps_have_the_same_kinds_of_notes(small):
    # Incubated at a temperature that kills cells, or at the usual one: the same notes.
    right = small.read_notes("Incubate", "bacteria", temperature="37 °C", duration="1 h")
    wrong = small.read_notes("Incubate", "uncounted", temperature="80 °C", duration="1 h")
    assert [text.replace("uncounted", "bacteria") for text, _ in wrong] == [text for text, _ in right]
