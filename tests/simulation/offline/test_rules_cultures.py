"""Cultures use up their substrate, attached cells are counted per vessel, and a label names what has changed."""

from decimal import Decimal

import pytest

from simulation.offline.hidden_truth import check_truth
from tests.support.laboratory_factory import SmallLab, build_material

GROWTH = {
    "action": "CellCultureIncubate", "components": ["soil cells"], "doubling_time": "2 h", "limit": "8e6 cells/mL",
    "consumes": {"glucose": "0.5 mg per 1e6 cells"}, "forms": {"gluconic acid": "2 µmol per 1e6 cells"},
}  # fmt: skip


def get_amount(lab, key, name):
    parts = lab[key].ledger["components"]
    return Decimal(parts[name]["amount"]) if name in parts else Decimal(0)


def grow(lab, glucose, duration, **changes):
    small = SmallLab(
        lab.catalogue,
        build_material("flask", "suspension", contents={"glucose": glucose}, hidden={"soil cells": "1e6 cells/mL"}),
        truth={"growth": [{**GROWTH, **changes}]},
    )
    assert small.run_step("CellCultureIncubate", "flask", temperature="30 °C", duration=duration).outcome.success
    return small


def test_culture_consumes_its_substrate_and_forms_its_product_for_each_new_cell(lab):
    # Two doublings in 4 h: 3e6 new cells consume 1.5 mg of 5 mg and form 6 µmol.
    small = grow(lab, "5 mg/mL", "4 h")
    assert get_amount(small, "flask", "soil cells") == 4_000_000
    assert get_amount(small, "flask", "glucose") == 3500  # µg
    assert get_amount(small, "flask", "gluconic acid") == 6000  # nmol


def test_culture_of_two_weeks_stops_when_its_substrate_is_gone(lab):
    # 2 mg allow 4e6 new cells; the limit of 8e6 is not reached, and two further weeks change nothing.
    small = grow(lab, "2 mg/mL", "14 day")
    for _ in range(2):
        assert get_amount(small, "flask", "soil cells") == 5_000_000
        assert get_amount(small, "flask", "glucose") == 0
        assert get_amount(small, "flask", "gluconic acid") == 8000
        small.run_step("CellCultureIncubate", "flask", temperature="30 °C", duration="14 day")


def test_culture_stops_at_its_density_and_leaves_the_rest_of_the_substrate(lab):
    # 7e6 new cells to the limit consume 3.5 mg of 5 mg.
    small = grow(lab, "5 mg/mL", "14 day")
    assert get_amount(small, "flask", "soil cells") == 8_000_000
    assert get_amount(small, "flask", "glucose") == 1500


def test_cells_that_do_not_grow_still_use_up_glucose_for_their_maintenance(lab):
    small = SmallLab(
        lab.catalogue,
        build_material("flask", "suspension", contents={"glucose": "10 mg/mL"}, hidden={"soil cells": "1e8 cells/mL"}),
        build_material("sterile", contents={"glucose": "10 mg/mL"}),
        truth={
            "maintenance": [
                {
                    "action": "Incubate",
                    "components": ["soil cells"],
                    "consumes": {"glucose": "0.02 mg per 1e9 cells"},
                    "every": "1 h",
                }
            ]
        },
    )
    small.run_step("Incubate", "flask sterile", temperature="28 °C", duration="14 day")
    # 1e8 cells use up 2 µg in an hour, 672 µg in the 336 h of 14 days; the 10 mg of the sterile flask stay.
    assert get_amount(small, "flask", "glucose") == 10_000 - 672
    assert small.get_property("flask", "glucose amount") == "not determined"
    assert small.get_property("sterile", "glucose concentration") == "10 mg/mL"
    # After years nothing is left, and never less than nothing.
    for _ in range(20):
        small.run_step("Incubate", "flask", temperature="28 °C", duration="14 day")
    assert get_amount(small, "flask", "glucose") == 0


def test_cultures_on_rock_take_up_nitrogen_and_glucose_with_or_without_mineral(lab):
    bench = lab.play_reference("weathering-enhancement-quantification")
    incubated = next(step for step in bench.history if step.action.name == "Incubate")
    flasks = {material.name: material for material in incubated.outcome.new_materials}

    def compute_use(name, component, before):  # share of what was in 30 mL of medium
        return 1 - Decimal(flasks[name].ledger["components"][component]["amount"]) / before

    # With mineral: 3e8 cells/mL in 30.3 mL, 0.153 mg of ammonium chloride per 1e9 cells: 1.4 mg of 30 mg
    assert compute_use("Weathering flask 1", "ammonium chloride", 30_000) == pytest.approx(
        Decimal("0.0454"), abs=Decimal("0.006")
    )
    # Without: 0.8 doublings of 1e7 cells/mL on stored phosphorus: 0.037 mg of 30 mg
    assert compute_use("Flask without mineral 1", "ammonium chloride", 30_000) == pytest.approx(
        Decimal("0.00124"), rel=Decimal("0.4")
    )
    assert compute_use("Abiotic flask 1", "ammonium chloride", 30_000) == 0
    # Glucose: (9.5 + 0.017 * 336) mg per 1e9 cells, so 4.6 of 10 mg/mL with mineral
    assert compute_use("Weathering flask 1", "glucose", 300_000) == pytest.approx(Decimal("0.455"), abs=Decimal("0.05"))
    assert 0 < compute_use("Flask without mineral 1", "glucose", 300_000) < Decimal("0.05")


def test_label_names_a_substrate_whose_amount_is_no_longer_known(lab):
    small = grow(lab, "5 mg/mL", "4 h")
    assert small.get_property("flask", "glucose concentration") is None
    assert small.get_property("flask", "glucose amount") == "not determined"
    # What nobody knew to be there is not named.
    assert not [name for name in small["flask"].properties if "soil" in name or "acid" in name]


def test_medium_in_which_nothing_grew_keeps_its_label(lab):
    medium = build_material("medium", contents={"glucose": "5 mg/mL"}, sterility="filter-sterilised")
    flask = build_material("flask", contents={"glucose": "5 mg/mL"}, sterility="filter-sterilised")
    culture = build_material("culture", "suspension", hidden={"soil cells": "1e6 cells/mL"})
    small = SmallLab(lab.catalogue, medium, flask, culture, truth={"growth": [GROWTH]})
    small.run_step("Transfer", "culture flask", source="@culture", amount="100 µL")
    small.run_step("CellCultureIncubate", "medium flask", temperature="30 °C", duration="1 h")
    assert small.get_property("medium", "glucose concentration") == "5 mg/mL"
    assert (small.get_property("medium", "glucose amount"), small.get_property("medium", "sterility")) == (
        None,
        "filter-sterilised",
    )
    # Cells were put into the other one: it is neither sterile nor of known content any more.
    assert small.get_property("flask", "glucose amount") == "not determined"
    assert small.get_property("flask", "sterility") is None


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("consumes", {"glucose": "0.5"}, "truth.growth[0].consumes: is {'glucose': '0.5'}; allowed: an amount per cells"),
        ("consumes", {"glucose": "2 mmol per 1e6 cells"}, "truth.growth[0].consumes.glucose: is '2 mmol per 1e6 cells'; allowed: "
         "an amount per cells, like '5 µg per 1e9 cells'"),
        ("limit", "8 mg/mL", "truth.growth[0].limit: is '8 mg/mL'; allowed: a concentration of soil cells, like '5 cells/mL'"),
        ("consumes", {"sugar": "1 mg per 1e6 cells"}, "truth.growth[0].consumes: unknown component 'sugar'"),
    ],
)  # fmt: skip
def test_truth_check_needs_units_of_what_a_culture_consumes(lab, field, value, problem):
    known = {"soil cells": "count", "glucose": "mass"}
    assert check_truth({"growth": [GROWTH]}, lab.catalogue, known, {"flask"}) == []
    found = check_truth({"growth": [{**GROWTH, field: value}]}, lab.catalogue, known, {"flask"})
    assert len(found) == 1 and found[0].startswith(problem)


def test_attached_cells_are_shown_per_vessel_before_and_after_a_wash(lab):
    small = SmallLab(
        lab.catalogue,
        build_material(
            "dish",
            "adherent culture",
            container="35 mm dish",
            contents={"HeLa cells": "1e5 cells/mL", "DMSO": "1 mg/mL"},
        ),
        build_material("buffer", volume="5 mL", capacity="10 mL"),
    )
    assert small.get_property("dish", "HeLa cells amount") == "100000"
    assert small.get_property("dish", "HeLa cells concentration") is None
    step = small.run_step(
        "Wash", "dish buffer", wash_medium="@buffer", replacement_medium="@buffer", wash_volume="1 mL", washes=1,
        replacement_volume="500 µL",
    )  # fmt: skip
    assert step.outcome.success, step.outcome.failure_reason
    # Half the volume, the same cells: nothing has been concentrated.
    assert small.get_property("dish", "volume") == "500 µL"
    assert small.get_property("dish", "HeLa cells amount") == "100000"


def test_cells_in_a_pellet_are_shown_per_tube_and_in_suspension_per_volume(lab):
    small = SmallLab(lab.catalogue, build_material("tube", "suspension", contents={"HeLa cells": "1e5 cells/mL"}))
    assert small.get_property("tube", "HeLa cells concentration") == "100000 cells/mL"
    small.run_step("Centrifuge", "tube", force="300 x g", duration="5 min")
    assert small.get_property("tube", "HeLa cells amount") == "100000"
    small.run_step("Mix", "tube", method="vortex")
    assert small.get_property("tube", "HeLa cells concentration") == "100000 cells/mL"
