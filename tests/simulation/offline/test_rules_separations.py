"""Supernatants, washes, filters, spins and extracts."""

from decimal import Decimal

import pytest

from simulation.offline.vessels import format_volume
from tests.support.laboratory_factory import SmallLab, build_material, build_tubes


@pytest.fixture
def small(lab):
    return SmallLab(
        lab.catalogue,
        build_material("dish", "adherent culture", "1 mL", "3 mL", "dish", hidden={"HeLa cells": "1e5 cells"}, contents={"drug": "10 µM"}, medium="old"),
        build_material("broth", "suspension", hidden={"yeast cells": "1e6 cells/mL"}, contents={"sugar": "4 mg/mL"}),
        build_material("saline", volume="50 mL", capacity="50 mL"),
        build_material("fresh_medium", volume="50 mL", capacity="50 mL", contents={"serum": "5 mg/mL"}),
        build_material("tea", volume="1 mL", hidden={"leaf": "3 mg"}),
        build_material("clip", "tissue", None, "200 µL", "0.2 mL PCR tube", contents={"fin": "2 mg"}, mass="2 mg"),
        build_material("ice", "frozen", condition="-80C"),
        build_tubes(),
        truth={
            "retained": {"leaf": "1 µm"},
            "reactions": [{"action": "AttemptDNAExtraction", "needs": ["fin"], "uses": ["fin"], "makes": "DNA", "from": "fin", "ratio": "0.0005"}],
        },
    )  # fmt: skip


def test_aspirate_leaves_the_cells_and_keeps_the_medium(small):
    small.run_step("Aspirate", "dish", "medium", volume="400 µL")
    assert (small.get_property("dish", "volume"), small.get_property("medium", "volume")) == ("600 µL", "400 µL")
    assert small.get_property("medium", "drug concentration") == "10 µM"
    assert small["dish"].ledger["components"]["HeLa cells"]["amount"] == "100000"
    assert "HeLa cells" not in small["medium"].ledger["components"]


def test_wash_replaces_the_liquid_and_keeps_the_cells(small):
    small.run_step("Wash", "dish saline fresh_medium", "waste", wash_medium="@saline", replacement_medium="@fresh_medium",
             wash_volume="500 µL", replacement_volume="800 µL", washes=2)  # fmt: skip
    assert small.get_property("dish", "volume") == "800 µL"
    assert small.get_property("dish", "drug concentration") is None
    assert small.get_property("dish", "serum concentration") == "5 mg/mL"
    assert small["dish"].ledger["components"]["HeLa cells"]["amount"] == "100000"
    # 1 mL old medium and two rinses of 0.5 mL
    assert (small.get_property("waste", "volume"), small["waste"].is_usable) == ("2 mL", False)
    assert (small.get_property("saline", "volume"), small.get_property("fresh_medium", "volume")) == (
        "49 mL",
        "49.2 mL",
    )


def test_medium_of_an_emptied_vessel_is_what_is_poured_in_next_and_of_a_full_one_both(small):
    small.run_step("Transfer", "saline dish", source="@saline", amount="100 µL")
    assert small.get_property("dish", "medium") == "old + saline"
    small.run_step("Aspirate", "dish", keep_supernatant=False)
    assert small.get_property("dish", "medium") is None
    small.run_step("Transfer", "fresh_medium dish", source="@fresh_medium", amount="300 µL")
    assert small.get_property("dish", "medium") == "fresh medium"


def test_lysate_of_attached_cells_has_no_medium(lab):
    lysis = {"action": "Wait", "needs": ["detergent", "HeLa cells"], "uses": ["HeLa cells"], "phase_from": "adherent culture", "phase_to": "liquid"}  # fmt: skip
    small = SmallLab(
        lab.catalogue,
        build_material("dish", "adherent culture", "1 mL", "3 mL", "dish", hidden={"HeLa cells": "1e5 cells"}, medium="PBS"),
        build_material("ripa", volume="10 mL", capacity="10 mL", contents={"detergent": "10 mg/mL"}),
        truth={"reactions": [lysis]},
    )  # fmt: skip
    small.run_step("Aspirate", "dish", keep_supernatant=False)
    small.run_step("Transfer", "ripa dish", source="@ripa", amount="300 µL")
    assert small.get_property("dish", "medium") == "ripa"
    small.run_step("Wait", "dish", duration="10 min")
    assert (small.get_property("dish", "phase"), small.get_property("dish", "medium")) == ("liquid", None)


def test_centrifuge_pellets_cells_and_the_supernatant_has_none(small):
    small.run_step("Centrifuge", "broth", force="300 x g")
    assert small.get_property("broth", "phase") == "pellet and supernatant"
    small.run_step("Aspirate", "broth", "clear")
    assert small.get_property("broth", "phase") == "pellet"
    assert small["broth"].is_usable
    assert list(small["clear"].ledger["components"]) == ["sugar"]
    assert small["broth"].ledger["components"]["yeast cells"]["amount"] == "1000000"


def test_centrifuge_below_the_minimum_force_changes_nothing(small):
    small.run_step("Centrifuge", "broth", force="50 x g")
    assert small.get_property("broth", "phase") == "suspension"
    assert "wrong phase" in small.get_rejection("Aspirate", "broth")


def test_filter_retains_what_is_larger_than_its_pores(small):
    small.run_step("Filter", "tea tubes", "filtrate used", pore_size="0.45 µm", volume="500 µL", discard_first="100 µL")
    # 100 µL of 500 µL were thrown away, 10 µL stay in a syringe filter for less than 1 mL.
    assert small.get_property("filtrate", "volume") == "390 µL"
    assert "leaf" not in small["filtrate"].ledger["components"]
    # half the tea went through: half the leaf is on the filter, half still in the tea
    assert small["used"].ledger["components"]["leaf"]["amount"] == "1500"
    assert small["tea"].ledger["components"]["leaf"]["amount"] == "1500"


def test_coarse_filter_lets_cells_through(small):
    small.run_step("Filter", "tea tubes", "filtrate", pore_size="10 µm", volume="500 µL")
    # Half the tea with half of 3 mg of leaf, less the 10 of 500 µL that stay in the filter
    assert small["filtrate"].ledger["components"]["leaf"]["amount"] == "1470"


@pytest.mark.parametrize(
    ("filter_type", "volume", "held_back"),
    [
        ("syringe filter", "1 mL", 10), ("syringe filter", "10 mL", 25), ("syringe filter", "20 mL", 100),
        ("spin filter", "500 µL", 5), ("bottle-top filter", "20 mL", 500), ("filter paper", "20 mL", 1500),
        ("filter paper", "100 µL", 50),  # never more than half
    ],
)  # fmt: skip
def test_filters_hold_back_a_volume_that_depends_on_their_form(lab, filter_type, volume, held_back):
    small = SmallLab(
        lab.catalogue,
        build_material("buffer", volume="30 mL", capacity="50 mL", contents={"salt": "1 mM"}),
        build_tubes("bottles", "50 mL", "50 mL bottle"),
    )
    small.run_step("Filter", "buffer bottles", "clear used", volume=volume, filter_type=filter_type)
    volumes = [Decimal(small[key].ledger["volume"]) for key in ("clear", "used")]
    assert volumes[1] == held_back
    assert format_volume(sum(volumes)) == volume
    assert small.get_property("clear", "salt concentration") == "1 mM"


def test_a_vessel_that_is_poured_into_a_filter_keeps_a_film_unless_it_is_rinsed(lab):
    buffer = build_material(
        "buffer", volume="85 mL", capacity="100 mL", container="glass bottle", contents={"salt": "1 mM"}
    )
    water = build_material("water", volume="50 mL", capacity="100 mL", container="bottle")
    small = SmallLab(lab.catalogue, buffer, water, build_tubes("bottles", "100 mL", "100 mL bottle"))
    small.run_step("Filter", "buffer bottles", "clear", filter_type="bottle-top filter")
    # 4.6 cm² x 85^(2/3) = 89 cm² of wall with 10 µm of water: 89 µL, to one digit; 0.5 mL stay in the filter
    assert (small.get_property("buffer", "volume"), small.get_property("clear", "volume")) == ("90 µL", "84.41 mL")
    small.run_step("Filter", "clear bottles water", "again residue", keep_residue=True, residue_wash="@water",
                   residue_wash_volume="5 mL", filter_type="bottle-top filter")  # fmt: skip
    assert not small["clear"].is_usable
    assert small.get_property("again", "volume") == "83.91 mL"


def test_dna_extract_has_the_declared_yield_in_the_elution_volume(small):
    small.run_step("AttemptDNAExtraction", "clip", elution_volume="50 µL")
    assert (small.get_property("clip", "phase"), small.get_property("clip", "volume")) == ("liquid", "50 µL")
    # 2 mg x 0.0005 = 1 µg, unknown until it is measured
    assert small["clip"].ledger["components"] == {"DNA": {"dimension": "mass", "amount": "1", "known": False}}
    assert small["clip"].name == "DNA extract of clip"
    assert small.get_property("clip", "mass") is None


def test_dna_is_eluted_into_a_tube_of_its_own_whatever_the_sample_was_in(small):
    # The clip is in a tube of 200 µL, which could not hold 500 µL.
    small.run_step("AttemptDNAExtraction", "clip", elution_volume="500 µL")
    assert small.get_property("clip", "container") == "1.5 mL microcentrifuge tube, polypropylene"
    assert small.get_property("clip", "container_capacity") == "1.5 mL"


@pytest.mark.parametrize(
    ("action", "keys", "parameters", "reason"),
    [
        ("Aspirate", "tea", {}, "wrong phase: tea is liquid; there is no supernatant over cells or a pellet"),
        ("Aspirate", "dish", {"volume": "2 mL"}, "short of volume: needs 2 mL, 1 mL usable in dish"),
        ("Centrifuge", "ice", {"force": "300 x g"}, "frozen: thaw it first (ice)"),
        ("Filter", "ice tubes", {}, "frozen: thaw it first (ice)"),
        ("Filter", "tea tubes", {"volume": "50 µL", "discard_first": "50 µL"}, "short of volume: 40 µL passes, of which 50 µL is to be thrown away"),
        (
            "Wash", "broth saline fresh_medium",
            {"wash_medium": "@saline", "replacement_medium": "@fresh_medium", "wash_volume": "1 mL", "replacement_volume": "1 mL"},
            "wrong phase: broth is suspension; there is no supernatant over cells or a pellet",
        ),
    ],
)  # fmt: skip
def test_rejected_separation_changes_nothing(small, action, keys, parameters, reason):
    assert small.get_rejection(action, keys, **parameters) == reason


KINDS = {"silver chloride": "particles", "debris": "particles", "DNA beads": "particles", "biofilm": "attached"}


def sorted_by_kind(*materials):
    for made in materials:
        for name, content in made["contents"].items():
            content |= {"kind": KINDS[name]} if name in KINDS else {}
    return materials


@pytest.fixture
def column(lab):
    return SmallLab(
        lab.catalogue,
        *sorted_by_kind(
        build_material("slurry", "suspension", "5 mL", "10 mL", "glass beaker", contents={"nitrate": "20 mM"},
                 hidden={"silver chloride": "14.3 mg"}),
        build_material("blank", volume="5 mL", capacity="10 mL", container="glass beaker"),
        build_material("rinse", volume="100 mL", capacity="200 mL", container="glass bottle"),
        build_material("crucible", "empty container", None, "30 mL", "filter crucible"),
        build_material("urine", volume="2 mL", capacity="5 mL", contents={"urea": "250 mM"}, hidden={"caffeine": "10 µg/mL"}),
        build_material("eluent", volume="10 mL", capacity="20 mL"),
        build_material("lysate", "suspension", "1 mL", contents={"salt": "500 mM"}, hidden={"protein": "2 mg/mL", "debris": "1 mg"}),
        build_material("bath", volume="5 mL", capacity="5 L", container="beaker", contents={"Tris": "10 mM"}),
        build_material("beads", "suspension", "500 µL", contents={"salt": "1 M"}, hidden={"DNA beads": "5 µg", "yeast cells": "1e6 cells"}),
        build_material("chip", "suspension", "1 mL", "2 mL", "12-well plate well", hidden={"biofilm": "3 mg", "swimming cells": "1e6 cells"}),
        build_material("dish", "adherent culture", "1 mL", "3 mL", "dish"),
        build_tubes(),
        build_tubes("vessels", "20 mL", "20 mL vial"),
        ),
        truth={
            "reactions": [
                {"action": "SolidPhaseExtraction", "needs": ["caffeine"], "uses": ["caffeine"], "makes": "caffeine", "from": "caffeine", "ratio": "0.9"},
                {"action": "Dialysis", "needs": ["protein"], "uses": ["protein"], "makes": "protein", "from": "protein", "ratio": "1"},
                {"action": "ApplyMagnet", "needs": ["DNA beads"], "makes": "DNA", "from": "DNA beads", "ratio": "0.5"},
            ],
        },
    )  # fmt: skip


def amounts(small, key):
    return {name: part["amount"] for name, part in small[key].ledger["components"].items()}


def test_filter_keeps_a_precipitate_in_its_crucible_while_the_rinse_passes_through(column):
    step = column.run_step("Filter", "slurry crucible vessels rinse", "filtrate used", keep_residue=True, residue_wash="@rinse",
                     residue_wash_volume="10 mL", residue_washes=3)  # fmt: skip
    assert amounts(column, "crucible") == {"silver chloride": "14300"}  # µg
    assert (column.get_property("crucible", "phase"), column.get_property("crucible", "rinsed with")) == (
        "solid",
        "3 x 10 mL of rinse",
    )
    assert amounts(column, "filtrate") == {"nitrate": "90000"}  # 5 mL, less 0.5 mL in the crucible, x 20 mM
    assert (column.get_property("filtrate", "phase"), column.get_property("rinse", "volume")) == ("liquid", "70 mL")
    assert column["used"].ledger["volume"] == "30500"
    assert column.codes["slurry"] in next(d for d in step.outcome.new_materials if d.name == "crucible").derived_from


def test_filter_without_a_crucible_puts_residues_into_new_containers(column):
    column.run_step("Filter", "slurry blank vessels", "filtrate residue filtrate_2 residue_2", keep_residue=True)
    # 14.3 mg in 5 mL, of which a film of 10 µL stays in the beaker: 4.6 cm² x 5^(2/3) x 10 µm
    assert amounts(column, "residue") == {"silver chloride": "14271.4"}
    assert amounts(column, "slurry") == {"silver chloride": "28.6", "nitrate": "200"}
    assert amounts(column, "residue_2") == {}


def test_centrifuge_pellets_particles_and_respects_the_container_limit(column):
    reason = column.get_rejection("Centrifuge", "chip", force="5000 x g")
    assert reason == "too much force: 5000 x g, a 12-well plate well stands 4000 x g at most (chip)"
    assert (
        column.get_rejection("Centrifuge", "blank", force="100 x g")
        == "wrong format: blank is in glass beaker, which fits no rotor"
    )
    assert "a 20 mL vial stands 3000 x g at most" in _spun_vial(column)
    column.run_step("Centrifuge", "lysate", force="16000 x g")
    column.run_step("Aspirate", "lysate", "clear")
    assert (amounts(column, "lysate"), column.get_property("lysate", "phase")) == ({"debris": "1000"}, "pellet")


def _spun_vial(column):
    column.run_step("Transfer", "eluent vessels", "vial", source="@eluent", amount="5 mL")
    return column.get_rejection("Centrifuge", "vial", force="3001 x g")


def test_aspirate_leaves_attached_components(column):
    column.run_step("Aspirate", "chip", "off")
    assert amounts(column, "chip") == {"biofilm": "3000"}
    assert (amounts(column, "off"), column.get_property("off", "phase")) == (
        {"swimming cells": "1000000"},
        "suspension",
    )


def test_aspirate_leaves_a_residual_volume_over_the_cells(column):
    column.run_step("Aspirate", "dish", "off", residual_volume="150 µL")
    assert (column.get_property("dish", "volume"), column.get_property("off", "volume")) == ("150 µL", "850 µL")


def test_solid_phase_extract_has_a_known_amount_only_of_components_with_a_declared_yield(column):
    column.run_step("SolidPhaseExtraction", "urine rinse eluent tubes", "extract waste", wash_buffer="@rinse", elution_buffer="@eluent",
              sample_volume="1 mL", wash_volume="500 µL", washes=2, elution_volume="400 µL")  # fmt: skip
    # 1 mL x 10 µg/mL x 0.9; where the urea went is not declared
    assert amounts(column, "extract") == {"caffeine": "9", "urea": ""}
    assert [column.get_property(key, "volume") for key in ("urine", "rinse", "eluent", "extract")] == [
        "1 mL",
        "99 mL",
        "9.6 mL",
        "400 µL",
    ]
    assert (column["waste"].ledger["volume"], amounts(column, "waste")) == ("2000", {"urea": ""})
    assert column.get_property("extract", "urea concentration") is None


def test_dialysis_keeps_the_volume_and_only_the_components_declared_as_retained(column):
    column.run_step("Dialysis", "lysate bath", "used", dialysis_buffer="@bath", buffer_volume="1 mL", buffer_changes=1)
    assert column.get_property("lysate", "volume") == "1 mL"
    assert amounts(column, "lysate") == {"salt": "", "Tris": "", "protein": "2000", "debris": "1000"}
    assert column["used"].ledger["volume"] == "2000"
    reason = column.get_rejection("Dialysis", "urine bath", dialysis_buffer="@bath", buffer_volume="2 mL")
    assert reason == "short of volume: needs 6 mL, 3 mL usable in bath"


def test_magnet_keeps_beads_and_elutes_what_is_declared(column):
    column.run_step("ApplyMagnet", "beads rinse eluent tubes", "off eluate waste", wash_buffer="@rinse", wash_volume="200 µL", washes=2,
              elution_buffer="@eluent", elution_volume="50 µL")  # fmt: skip
    assert (amounts(column, "beads"), column.get_property("beads", "phase")) == ({"DNA beads": "5"}, "pellet")
    assert amounts(column, "off") == {"salt": "500000", "yeast cells": "1000000"}  # 500 µL x 1 M
    assert (column.get_property("off", "phase"), column.get_property("eluate", "volume")) == ("suspension", "50 µL")
    assert amounts(column, "eluate") == {"DNA": "2.5"}  # half of 5 µg
    assert column["waste"].ledger["volume"] == "400"
    assert column.bench.elapsed == 5 * 60


@pytest.mark.parametrize(
    ("keys", "parameters", "reason"),
    [
        ("urine", {}, "no magnetic beads: nothing in urine is drawn to a magnet"),
        ("beads rinse", {"wash_buffer": "@rinse", "collect_supernatant": False}, "contradiction: washing and elution take the liquid off; let it be collected"),
    ],
)  # fmt: skip
def test_magnet_rejects_samples_without_beads_and_contradictory_settings(column, keys, parameters, reason):
    assert column.get_rejection("ApplyMagnet", keys, **parameters) == reason


def test_filter_rejects_a_rinse_without_a_volume(column):
    reason = column.get_rejection("Filter", "slurry crucible vessels rinse", keep_residue=True, residue_wash="@rinse")
    assert reason == "critically unclear: how much of rinse each residue is rinsed with"


def test_filter_draws_a_full_culture_and_retains_its_cells(small):
    small.run_step("Filter", "broth tubes", "clear used", pore_size="0.22 µm")
    # 1 mL: a film of 5 µL stays in the tube, and 10 µL in the filter
    assert amounts(small, "clear") == {"sugar": "3940"}
    assert amounts(small, "used") == {"yeast cells": "995000", "sugar": "40"}


def test_centrifuge_computes_the_force_from_speed_and_radius(lab):
    # 1.118e-6 * 100 mm * (4000 rpm)^2 = 1789 x g: enough for cells; at 900 rpm it is 91 x g, which is not
    truth = build_material(
        "culture", "suspension", hidden={"yeast cells": "1e6 cells/mL"}, container="15 mL tube", capacity="15 mL"
    )
    slow, fast = SmallLab(lab.catalogue, truth), SmallLab(lab.catalogue, truth)
    assert slow.run_step("Centrifuge", "culture", speed="900 rpm").outcome.success
    assert slow.get_property("culture", "phase") == "suspension"
    assert fast.run_step("Centrifuge", "culture", speed="4000 rpm").outcome.success
    assert fast.get_property("culture", "phase") == "pellet and supernatant"


@pytest.mark.parametrize("spin", [{}, {"speed": "4000 rpm", "force": "300 x g"}])
def test_centrifuge_needs_either_force_or_speed(lab, spin):
    bench = SmallLab(lab.catalogue, build_material("culture", "suspension", hidden={"yeast cells": "1e6 cells/mL"}))
    assert bench.get_rejection("Centrifuge", "culture", **spin) == (
        "critically unclear: a spin needs its force or its speed, and not both"
    )


def test_chip_moved_to_a_fresh_well_leaves_behind_what_is_attached_to_the_old_one(lab):
    well = build_material("well", hidden={"biofilm": "30 µg", "biofilm on plastic": "10 µg"}, insert="basalt chip")
    for name in ("biofilm", "biofilm on plastic"):
        well["contents"][name]["kind"] = "attached"
    small = SmallLab(
        lab.catalogue,
        well,
        build_material("saline", volume="50 mL", capacity="100 mL", container="bottle"),
        build_material("cup", "adherent culture", hidden={"HeLa cells": "1e5 cells"}),
        build_tubes("wells", "3 mL", "well"),
        truth={"on_insert": ["biofilm"]},
    )
    rinse = {
        "wash_medium": "@saline",
        "replacement_medium": "@saline",
        "wash_volume": "1 mL",
        "replacement_volume": "1 mL",
    }
    assert small.get_rejection("Wash", "cup saline wells", fresh_vessels=True, **rinse).startswith("no insert: ")
    small.run_step("Wash", "well saline wells", "moved waste", fresh_vessels=True, **rinse)
    amounts = {
        key: {name: part["amount"] for name, part in small[key].ledger["components"].items()}
        for key in ("well", "moved")
    }
    assert amounts == {"well": {"biofilm on plastic": "10"}, "moved": {"biofilm": "30"}}
    assert (small.get_property("moved", "insert"), small.get_property("moved", "volume")) == ("basalt chip", "1 mL")
    assert (small.get_property("well", "insert"), small["well"].is_usable) == ("moved to a fresh vessel", False)
