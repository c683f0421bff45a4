"""Action parameters, and the actions that the catalogue refuses."""

from decimal import Decimal

import pytest

from simulation.lab.actions import SUBMIT, Action, ActionType, Catalogue, Duration
from simulation.lab.materials import NOT_AVAILABLE, NewMaterial, build_inventory
from simulation.lab.parameters import Parameter, ParameterError

SELECT = Parameter("mode", "select", "how", options=("vortex", "invert"))
MANY = Parameter("filters", "multiselect", "which", options=("DAPI", "FITC", "TRITC"))
COUNT = Parameter("cycles", "range", "how often", minimum=1, maximum=40)
VOLUME = Parameter("volume", "range_with_units", "how much", dimension="volume", minimum="1 µL", maximum="10 mL")
SWITCH = Parameter("lid", "boolean", "closed or not")
OBJECT = Parameter("voltages", "object", "per channel", keys=dict.fromkeys(("FSC", "SSC")))
ONE = Parameter("solvent", "material_selector", "which material")
SEVERAL = Parameter("targets", "multi_material_selector", "which materials")
QUESTION = Parameter("question", "text", "one question ending in a question mark", pattern=r"[^?]+\?", max_length=40)


@pytest.mark.parametrize(
    ("parameter", "written", "typed"),
    [
        (SELECT, "vortex", "vortex"),
        (MANY, "DAPI, FITC", ("DAPI", "FITC")),
        (MANY, ["FITC", "DAPI"], ("FITC", "DAPI")),
        (COUNT, "35", Decimal(35)),
        (COUNT, 1, Decimal(1)),
        (VOLUME, "0.5 mL", Decimal(500)),
        (SWITCH, "true", True),
        (SWITCH, False, False),
        (OBJECT, {"FSC": "400"}, {"FSC": "400"}),
        (ONE, "MAT-A1B2C3D4", "MAT-A1B2C3D4"),
        (SEVERAL, "MAT-A1B2C3D4,MAT-B1B2C3D4", ("MAT-A1B2C3D4", "MAT-B1B2C3D4")),
        (QUESTION, "Is it clear?", "Is it clear?"),
    ],
)
def test_parameter_type_parses_allowed_values(parameter, written, typed):
    assert parameter.parse_value(written) == typed


@pytest.mark.parametrize(
    ("parameter", "written"),
    [
        (SELECT, "shake"),
        (SELECT, ["vortex"]),
        (MANY, ["Cy5"]),
        (MANY, []),
        (COUNT, "0"),
        (COUNT, "41"),
        (COUNT, "1e3"),
        (COUNT, True),
        (VOLUME, "11 mL"),
        (VOLUME, "5"),
        (VOLUME, "5 mg"),
        (SWITCH, "yes"),
        (SWITCH, 1),
        (OBJECT, {"FL9": 1}),
        (OBJECT, "FSC"),
        (ONE, ["MAT-A1B2C3D4"]),
        (SEVERAL, ""),
        (QUESTION, "Tell me the titer"),
        (QUESTION, "x" * 50 + "?"),
    ],
)
def test_parameter_type_refuses_other_values_and_names_the_parameter(parameter, written):
    with pytest.raises(ParameterError, match=parameter.name):
        parameter.parse_value(written)


@pytest.mark.parametrize("parameter", [SELECT, MANY, COUNT, VOLUME, SWITCH, OBJECT, ONE, SEVERAL, QUESTION])
def test_parameter_type_describes_the_allowed_values(parameter):
    assert parameter.describe_allowed()


MIX = ActionType(
    "Mix", "transformation", "mixes", "one or more", "one each", (SELECT, VOLUME, SEVERAL), 1, 2,
    duration=Duration(60, per_material=True),
)  # fmt: skip
SUBMITS = ActionType(SUBMIT, "control", "hands in", "none", "none", min_materials=0, max_materials=0)
WAIT = ActionType(
    "Wait", "control", "waits", "one", "one",
    (Parameter("time", "range_with_units", "how long", dimension="duration", minimum="1 s", maximum="7 day"),),
    duration=Duration(30, parameter="time"),
)  # fmt: skip
CATALOGUE = Catalogue({t.name: t for t in (MIX, SUBMITS, WAIT)})
BENCH = build_inventory(
    (NewMaterial("A", {}), NewMaterial("B", {}), NewMaterial("C", {}), NewMaterial("D", {}, NOT_AVAILABLE)), seed=1
)
A, B, C, D = (material.barcode for material in BENCH)


def test_catalogue_accepts_an_allowed_action():
    assert CATALOGUE.find_rejection(Action("Mix", (A, B), {"mode": "vortex", "targets": [A]}), BENCH) == ""


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        (Action("Teleport", (A,)), "no action 'Teleport'"),
        (Action("Mix", (A,), {"speed": "3"}), "no parameter 'speed'"),
        (Action("Mix", (A,), {"mode": "shake"}), "one of vortex, invert"),
        (Action("Mix", ()), "takes 1 to 2 materials"),
        (Action("Mix", (A, B, C)), "takes 1 to 2 materials"),
        (Action("Mix", (A, A)), "twice"),
        (Action("Mix", ("MAT-00000000",)), "no material 'MAT-00000000'"),
        (Action("Mix", (D,)), "not available any more"),
        (Action("Mix", (A,), {"targets": [B]}), "not among the materials"),
    ],
)
def test_catalogue_refuses_a_wrong_action_with_a_reason(action, reason):
    assert reason in CATALOGUE.find_rejection(action, BENCH)


def test_missing_required_parameter_is_refused_with_the_allowed_values():
    needed = Parameter("mode", "select", "how", required=True, options=("vortex",))
    catalogue = Catalogue({"Mix": ActionType("Mix", "transformation", "m", "i", "o", (needed,))})
    assert "needs mode: one of vortex" in catalogue.find_rejection(Action("Mix", (A,)), BENCH)


def test_missing_parameter_takes_its_default():
    with_default = Parameter("cycles", "range", "how often", default=30, minimum=1, maximum=40)
    kind = ActionType("PCR", "transformation", "m", "i", "o", (with_default, SWITCH))
    assert kind.parse_parameters(Action("PCR", (A,))) == {"cycles": Decimal(30), "lid": None}


def test_action_name_may_have_the_prefix_experiment_and_submit_may_be_abbreviated():
    assert CATALOGUE.normalise_action(Action("ExperimentMix", (A,))).name == "Mix"
    assert CATALOGUE.normalise_action(Action("Submit")).name == SUBMIT
    assert CATALOGUE.normalise_action(Action("ExperimentTeleport")).name == "ExperimentTeleport"


def test_action_duration_is_fixed_per_material_or_set_by_a_parameter():
    assert MIX.compute_seconds(Action("Mix", (A, B))) == 120  # 2 materials x 60 s
    assert WAIT.compute_seconds(Action("Wait", (A,), {"time": "2 h"})) == 7200
    assert WAIT.compute_seconds(Action("Wait", (A,))) == 30


def test_action_round_trips_through_json():
    action = Action("Mix", (A,), {"mode": "vortex"})
    assert Action.from_json(action.to_json()) == action


def test_object_parameter_has_typed_values_and_may_be_written_as_text():
    volts = Parameter("FSC", "range_with_units", "", dimension="voltage", minimum="0 V", maximum="1000 V")
    on = Parameter("trigger", "boolean", "")
    detectors = Parameter("detectors", "object", "per channel", keys={"FSC": volts, "trigger": on, "note": None})
    assert detectors.parse_value({"FSC": "400 V", "trigger": True, "note": "x"}) == {
        "FSC": 400,
        "trigger": True,
        "note": "x",
    }
    assert detectors.parse_value("{FSC:400 V, trigger:true}") == {"FSC": 400, "trigger": True}
    for wrong in ("{FSC:400 V", "{SSC:3 V}", "{}", "{FSC}", "FSC:400 V", "{" * 3000):
        with pytest.raises(ParameterError, match="detectors"):
            detectors.parse_value(wrong)
    with pytest.raises(ParameterError, match="FSC is 4 kV; it must be 0 V to 1000 V"):
        detectors.parse_value({"FSC": "4 kV"})


def test_object_parameter_reads_a_bare_number_in_the_unit_of_its_bounds():
    ranged = {"type": "range_with_units", "description": ""}
    volts = Parameter("FSC", **ranged, dimension="voltage", minimum="0 V", maximum="1000 V")
    amount = Parameter("dye", **ranged, dimension="volume", minimum="1 µL", maximum="2 mL")
    detectors = Parameter("detectors", "object", "", keys={"FSC": volts, "SSC": volts, "dye": amount})
    assert detectors.parse_value("{FSC:400,SSC:500}") == {"FSC": 400, "SSC": 500}  # as the paper writes it
    assert detectors.parse_value({"FSC": 400, "SSC": 500.5}) == {"FSC": 400, "SSC": Decimal("500.5")}
    for wrong, said in (
        ("{FSC:4000}", "FSC is 4000 V"),
        ("{dye:5}", "'5' is not a volume"),
    ):  # microlitres or millilitres?
        with pytest.raises(ParameterError, match=said):
            detectors.parse_value(wrong)
    for wrong in (True, 10**5000, "400 400", float("nan"), -1):
        with pytest.raises(ParameterError, match="FSC"):
            detectors.parse_value({"FSC": wrong})
    with pytest.raises(ParameterError, match="'400' is not a voltage"):
        volts.parse_value("400")


def test_action_duration_adds_fixed_time_and_cycled_holds_per_sample():
    time = {"type": "range_with_units", "description": "", "dimension": "duration", "minimum": "0 s", "maximum": "1 h"}
    kind = ActionType(
        "Cycle", "measurement", "", "samples", "", min_materials=1,
        parameters=(
            Parameter("hold", **time, default="30 s"), Parameter("rest", **time),
            Parameter("cycles", "range", "", minimum=1, maximum=60, default=35), Parameter("buffer", "material_selector", ""),
        ),
        duration=Duration(120, per_material=True, total=(("hold", "cycles"), ("rest",))),
    )  # fmt: skip
    # (120 s + 35 x 30 s) for each of two samples; the buffer is not a sample
    action = Action("Cycle", ("A", "B", "C"), {"buffer": "C"})
    assert kind.compute_seconds(action) == 2 * (120 + 35 * 30)
    assert kind.compute_seconds(Action("Cycle", ("A",), {"rest": "10 min", "cycles": 2})) == 120 + 2 * 30 + 600
