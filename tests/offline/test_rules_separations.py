"""Supernatants, washes, filters, spins and extracts."""

import pytest
from small_lab import SmallLab, material, tubes


@pytest.fixture
def small(lab):
    return SmallLab(
        lab.catalogue,
        material("dish", "adherent culture", "1 mL", "3 mL", "dish", hidden={"HeLa cells": "1e5 cells"}, contents={"drug": "10 µM"}, medium="old"),
        material("broth", "suspension", hidden={"yeast cells": "1e6 cells/mL"}, contents={"sugar": "4 mg/mL"}),
        material("saline", volume="50 mL", capacity="50 mL"),
        material("fresh_medium", volume="50 mL", capacity="50 mL", contents={"serum": "5 mg/mL"}),
        material("tea", volume="1 mL", hidden={"leaf": "3 mg"}),
        material("clip", "tissue", None, "200 µL", "0.2 mL PCR tube", contents={"fin": "2 mg"}, mass="2 mg"),
        material("ice", "frozen", condition="-80C"),
        tubes(),
        truth={
            "retained": {"leaf": "1 µm"},
            "reactions": [{"action": "AttemptDNAExtraction", "needs": ["fin"], "uses": ["fin"], "makes": "DNA", "from": "fin", "ratio": "0.0005"}],
        },
    )  # fmt: skip


def test_aspirating_leaves_the_cells_and_keeps_the_medium(small):
    small.do("Aspirate", "dish", "medium", volume="400 µL")
    assert (small.shown("dish", "volume"), small.shown("medium", "volume")) == ("600 µL", "400 µL")
    assert small.shown("medium", "drug concentration") == "10 µM"
    assert small["dish"].ledger["components"]["HeLa cells"]["amount"] == "100000"
    assert "HeLa cells" not in small["medium"].ledger["components"]


def test_washing_replaces_the_liquid_and_keeps_the_cells(small):
    small.do("Wash", "dish saline fresh_medium", "waste", wash_medium="@saline", replacement_medium="@fresh_medium",
             wash_volume="500 µL", replacement_volume="800 µL", washes=2)  # fmt: skip
    assert small.shown("dish", "volume") == "800 µL"
    assert small.shown("dish", "drug concentration") is None
    assert small.shown("dish", "serum concentration") == "5 mg/mL"
    assert small["dish"].ledger["components"]["HeLa cells"]["amount"] == "100000"
    # 1 mL old medium and two rinses of 0.5 mL
    assert (small.shown("waste", "volume"), small["waste"].usable) == ("2 mL", False)
    assert (small.shown("saline", "volume"), small.shown("fresh_medium", "volume")) == ("49 mL", "49.2 mL")


def test_a_spin_brings_cells_down_and_the_supernatant_comes_off_without_them(small):
    small.do("Centrifuge", "broth", force="300 x g")
    assert small.shown("broth", "phase") == "pellet and supernatant"
    small.do("Aspirate", "broth", "clear")
    assert small.shown("broth", "phase") == "pellet"
    assert small["broth"].usable
    assert list(small["clear"].ledger["components"]) == ["sugar"]
    assert small["broth"].ledger["components"]["yeast cells"]["amount"] == "1000000"


def test_a_spin_that_is_too_gentle_changes_nothing(small):
    small.do("Centrifuge", "broth", force="50 x g")
    assert small.shown("broth", "phase") == "suspension"
    assert "wrong phase" in small.refused("Aspirate", "broth")


def test_a_filter_holds_back_what_is_larger_than_its_pores(small):
    small.do("Filter", "tea tubes", "filtrate used", pore_size="0.45 µm", volume="500 µL", discard_first="100 µL")
    assert small.shown("filtrate", "volume") == "400 µL"
    assert "leaf" not in small["filtrate"].ledger["components"]
    # half the tea went through: half the leaf is on the filter, half still in the tea
    assert small["used"].ledger["components"]["leaf"]["amount"] == "1500"
    assert small["tea"].ledger["components"]["leaf"]["amount"] == "1500"


def test_a_coarse_filter_lets_it_through(small):
    small.do("Filter", "tea tubes", "filtrate", pore_size="10 µm", volume="500 µL")
    assert small["filtrate"].ledger["components"]["leaf"]["amount"] == "1500"


def test_an_extract_holds_the_declared_yield_in_the_elution_volume(small):
    small.do("AttemptDNAExtraction", "clip", elution_volume="50 µL")
    assert (small.shown("clip", "phase"), small.shown("clip", "volume")) == ("liquid", "50 µL")
    # 2 mg x 0.0005 = 1 µg, and nobody knows it before it is measured
    assert small["clip"].ledger["components"] == {"DNA": {"dimension": "mass", "amount": "1", "known": False}}
    assert small["clip"].name == "DNA extract of clip"
    assert small.shown("clip", "mass") is None


@pytest.mark.parametrize(
    ("action", "keys", "parameters", "reason"),
    [
        ("Aspirate", "tea", {}, "wrong phase: tea is liquid; there is no supernatant over cells or a pellet"),
        ("Aspirate", "dish", {"volume": "2 mL"}, "short of volume: needs 2 mL, 1 mL usable in dish"),
        ("Centrifuge", "ice", {}, "frozen: thaw it first (ice)"),
        ("Filter", "ice tubes", {}, "frozen: thaw it first (ice)"),
        ("Filter", "tea tubes", {"volume": "50 µL", "discard_first": "50 µL"}, "short of volume: 50 µL passes, of which 50 µL is to be thrown away"),
        ("AttemptDNAExtraction", "clip", {"elution_volume": "500 µL"}, "too small a container: 200 µL capacity, 500 µL would be in it (clip)"),
        (
            "Wash", "broth saline fresh_medium",
            {"wash_medium": "@saline", "replacement_medium": "@fresh_medium", "wash_volume": "1 mL", "replacement_volume": "1 mL"},
            "wrong phase: broth is suspension; there is no supernatant over cells or a pellet",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_parted_is_refused_and_changes_nothing(small, action, keys, parameters, reason):
    assert small.refused(action, keys, **parameters) == reason
