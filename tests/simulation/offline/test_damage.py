"""Heat, frost and time destroy cells, viruses, enzymes and antibodies, and labels do not show it."""

from decimal import Decimal

import pytest

from simulation.offline.damage import age, find_damage_class
from simulation.offline.hidden_truth import check_truth
from simulation.offline.ledger import Component, Contents
from tests.support.laboratory_factory import SmallLab, build_material


def get_amount(lab, key, name):
    parts = lab[key].ledger["components"]
    return Decimal(parts[name]["amount"]) if name in parts else Decimal(0)


def run(lab, material, *steps, **truth):
    small = SmallLab(lab.catalogue, material, build_material("water"), truth=truth)
    for action, parameters in steps:
        step = small.run_step(action, material["key"], **parameters)
        assert step.outcome.success, step.outcome.failure_reason
    return small


@pytest.mark.parametrize(
    ("name", "dimension", "lost"),
    [
        ("HeLa cells", "count", "dead"),
        ("plasmid with insert, in the bacteria", "mass", "degraded"),
        ("vector-F primer", "amount", "degraded"),
        ("lentiviral vector", "count", "inactive"),
        ("jGCaMP7f vector", "count", "inactive"),
        ("Taq polymerase", "mass", "inactive"),
        ("anti-GFP IgG", "mass", "inactive"),
        ("dCAPS restriction enzyme", "mass", "inactive"),
        ("caffeine", "mass", None),
        ("ferrocene", "amount", None),
        ("dead HeLa cells", "count", None),
    ],
)
def test_class_of_a_component_follows_its_name(name, dimension, lost):
    kind = find_damage_class(name, Component(dimension, Decimal(1), True))
    assert (kind.lost if kind else None) == lost


@pytest.mark.parametrize(
    ("name", "dimension", "temperature", "seconds", "left"),
    [
        ("soil cells", "count", "60", "36", "250"),  # half-life 18 s: a quarter of 1000
        ("soil cells", "count", "37", "864000", "1000"),
        ("soil cells", "count", "100", "600", "0"),
        ("anti-GFP IgG", "mass", "65", "600", "500"),  # half-life 10 min
        ("anti-GFP IgG", "mass", "95", "300", "0"),  # 2^-10 is less than a tenth: no activity
        ("anti-GFP IgG", "mass", "22", "864000", "1000"),
        ("lentiviral vector", "count", "37", "37440", "500"),  # half-life 10.4 h
        ("plasmid", "mass", "95", "3600", "1000"),
        ("plasmid", "mass", "121", "300", "500"),
        ("Taq polymerase", "mass", "95", "2400", "500"),
        ("trypsin", "mass", "22", "604800", "500"),  # a week on the bench
        ("caffeine", "mass", "121", "3600", "1000"),
    ],
)
def test_share_that_survives_follows_the_half_life_at_the_temperature(name, dimension, temperature, seconds, left):
    contents = Contents({name: Component(dimension, Decimal(1000), True)}, {}, Decimal(1000))
    after = age(contents, Decimal(seconds), Decimal(temperature))
    assert after.get_amount(name) == Decimal(left)
    assert sum(part.amount for part in after.components.values()) == 1000


@pytest.mark.parametrize(
    ("name", "micrograms", "temperature", "days", "left"),
    [
        ("anti-GFP IgG", "1", "22", "2", "0.5"),  # a working dilution of 1 µg/mL on the bench: one half-life
        ("anti-GFP IgG", "1", "4", "10", "0.5"),  # in the refrigerator
        ("anti-GFP IgG", "1000", "22", "2", "1"),  # the stock
        ("trypsin", "8", "22", "1", "0.125"),  # three half-lives of 8 h
        ("trypsin", "2500", "4", "30", "1"),
        ("albumin", "1", "22", "30", "1"),  # no class
    ],
)
def test_working_dilutions_of_antibodies_and_enzymes_expire_and_stocks_keep(name, micrograms, temperature, days, left):
    # In 1 mL
    contents = Contents({name: Component("mass", Decimal(micrograms), True)}, {}, Decimal(1000))
    after = age(contents, Decimal(days) * 86400, Decimal(temperature))
    assert after.get_amount(name) == Decimal(micrograms) * Decimal(left)


def test_heated_culture_is_dead_and_as_turbid_as_before(lab):
    turbidity = {"action": "UsePhotospectrometer", "components": {"soil cells": "1"}, "signal": "turbidity", "unit": "AU",
                 "slope": "1 AU per 1e9 cells/mL", "intercept": "0 AU", "noise": "0"}  # fmt: skip
    growth = {"action": "CellCultureIncubate", "components": ["soil cells"], "doubling_time": "2 h"}
    flask = build_material("flask", "suspension", volume="1 mL", hidden={"soil cells": "1e9 cells/mL"})
    small = run(lab, flask, ("Incubate", {"temperature": "80 °C", "duration": "10 min"}),
                ("CellCultureIncubate", {"temperature": "30 °C", "duration": "24 h"}), responses=[turbidity], growth=[growth])  # fmt: skip
    assert (get_amount(small, "flask", "soil cells"), get_amount(small, "flask", "dead soil cells")) == (0, 10**9)
    assert small.read_values("UsePhotospectrometer", "flask", wavelength="600 nm", sample_volume="100 µL") == [
        "1.000 AU"
    ]


def test_cells_frozen_without_a_cryoprotectant_die_and_with_one_live(lab):
    cells = {"HeLa cells": "1e6 cells/mL"}
    thaw = ("Incubate", {"temperature": "37 °C", "duration": "5 min"})
    freeze = ("Storage", {"condition": "-80C"})
    bare = run(lab, build_material("bare", "suspension", contents=cells), freeze, thaw)
    # 99 % of 10^6 cells in 1 mL
    assert (get_amount(bare, "bare", "HeLa cells"), get_amount(bare, "bare", "dead HeLa cells")) == (10_000, 990_000)
    assert bare.get_property("bare", "HeLa cells concentration") == "1e6 cells/mL"  # as written on the tube
    counted = bare.run_step("CellCounter", "bare", viability_stain="trypan blue", replicates=1).outcome.new_observations
    densities = {seen.description.rpartition("density of ")[2] for seen in counted if "density of" in seen.description}
    assert densities == {"HeLa cells", "dead HeLa cells"}
    entry = build_material("kept", "suspension", contents={**cells, "DMSO": "100 µL"})
    kept = run(lab, entry, freeze, thaw)
    assert get_amount(kept, "kept", "HeLa cells") == 1_000_000


def test_each_further_freezing_halves_the_titre_of_a_lentivirus_but_not_of_aav(lab):
    stock = build_material("stock", "frozen", volume="100 µL", condition="-80C",
                           hidden={"lentiviral vector": "1e6 TU/mL", "AAV vector": "1e12 particles/mL"})  # fmt: skip
    thaw = ("Incubate", {"temperature": "37 °C", "duration": "2 min"})
    small = run(lab, stock, thaw, ("Storage", {"condition": "-80C"}), thaw)
    # 10^5 TU, half of them after one more freezing; 2 min at 37 °C cost 0.2 % each time
    assert Decimal("0.49") < get_amount(small, "stock", "lentiviral vector") / 100_000 < Decimal("0.50")
    assert get_amount(small, "stock", "AAV vector") == 10**11


def test_boiled_antibody_gives_no_band(lab):
    band = {"action": "CapillaryWestern", "component": "GFP", "signal": "band at 27 kDa", "unit": "", "slope": "100 per µg/mL",
            "intercept": "0", "noise": "0", "within": ["anti-GFP IgG"]}  # fmt: skip
    for heat, values in (
        ({"temperature": "22 °C", "duration": "10 min"}, ["1000"]),
        ({"temperature": "95 °C", "duration": "10 min"}, [""]),
    ):
        small = SmallLab(
            lab.catalogue,
            build_material("lysate", contents={"GFP": "10 µg/mL"}),
            build_material("antibody", contents={"anti-GFP IgG": "1 mg/mL"}),
            truth={"responses": [band]},
        )
        small.run_step("Incubate", "antibody", **heat)
        assert small.get_property("antibody", "anti-GFP IgG concentration") == "1 mg/mL"
        assert (
            small.read_values("CapillaryWestern", "lysate antibody", primary_antibody="@antibody", replicates=1)
            == values
        )


def test_old_working_dilution_has_lost_its_activity_and_the_stock_has_not(lab):
    decay = {"components": ["anti-GFP IgG"], "below": "50 µg/mL", "warmer_than": "10 °C", "half_life": "12 h"}
    small = SmallLab(
        lab.catalogue,
        build_material("stock", contents={"anti-GFP IgG": "1 mg/mL"}),
        build_material("dilution", contents={"anti-GFP IgG": "10 µg/mL"}),
        build_material("cold", contents={"anti-GFP IgG": "10 µg/mL"}, condition="4C"),
        truth={"decays": [decay]},
    )
    small.run_step("Wait", "stock dilution cold", duration="12 h")
    amounts = [get_amount(small, key, "anti-GFP IgG") for key in ("stock", "dilution", "cold")]
    assert amounts == [1000, 5, 10]  # µg in 1 mL


def test_time_between_two_steps_counts_like_time_within_one(lab):
    small = SmallLab(
        lab.catalogue,
        build_material("virus", hidden={"lentiviral vector": "1e6 TU/mL"}),
        build_material("other", "suspension"),
    )
    small.run_step("Wait", "other", duration="38 h")  # the virus stays on the bench
    assert get_amount(small, "virus", "lentiviral vector") == 10**6
    small.run_step("Mix", "virus", method="invert")
    # half-life of 38 h at 22 °C
    assert round(get_amount(small, "virus", "lentiviral vector") / 10**6, 3) == Decimal("0.500")


def test_volatile_acid_leaves_with_the_water_and_salt_stays(lab):
    dish = build_material("dish", container="50 mL beaker", capacity="50 mL", volume="1 mL",
                          contents={"acetic acid": "50 mg/mL", "sodium chloride": "9 mg/mL"})  # fmt: skip
    small = run(lab, dish, ("DryingOven", {"temperature": "105 °C", "duration": "2 h"}))
    assert get_amount(small, "dish", "acetic acid") == 0
    assert get_amount(small, "dish", "sodium chloride") == 9000


def test_truth_check_covers_decays(lab):
    decay = {"components": ["IgG"], "below": "50 µg/mL", "warmer_than": "10 °C", "half_life": "12 h"}
    assert check_truth({"decays": [decay]}, lab.catalogue, {"IgG": "mass"}, {"tube"}) == []
    (found,) = check_truth({"decays": [{**decay, "half_life": "soon"}]}, lab.catalogue, {"IgG": "mass"}, {"tube"})
    assert found.startswith("truth.decays[0].half_life: is 'soon'; allowed: a duration above zero")
