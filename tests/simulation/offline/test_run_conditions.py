"""Settings that spoil a measurement: pressure, carryover, exposure, event rate and overloading."""

from decimal import Decimal

import pytest

from simulation.offline.run_conditions import compute_column_pressure
from tests.support.laboratory_factory import SmallLab, build_material

PEAK = {"action": "HPLC", "component": "dye", "signal": "peak area", "unit": "mAU·s", "slope": "100 mAU·s per µg/mL",
        "intercept": "0 mAU·s", "noise": "0", "detection_limit": "0.05 µg/mL"}  # fmt: skip
GEL_BANDS = [
    {"component": "whole amplicon", "length": "352 bp", "minimum": "10 ng"},
    {"component": "cut amplicon", "length": "326 bp", "minimum": "10 ng"},
]


def build_vials(lab, truth):
    vial = {"container": "2 mL vial"}
    return SmallLab(
        lab.catalogue,
        build_material("standard", contents={"dye": "100 µg/mL"}, **vial),
        build_material("blank", contents={"buffer": "1 mM"}, **vial),
        build_material("last", contents={"buffer": "1 mM"}, **vial),
        truth=truth,
    )


@pytest.mark.parametrize(
    ("needle_wash", "area_of_blank"),
    [
        # 0.5 % of 100 µg/mL in the blank, and 0.5 % of that in the vial after it, which is below the limit
        ("none", 50.0),
        ("methanol", None),
    ],
)
def test_blank_after_a_standard_shows_a_peak_unless_the_needle_is_washed(lab, needle_wash, area_of_blank):
    small = build_vials(lab, {"responses": [PEAK]})
    found = small.read_values("HPLC", "standard blank last", needle_wash=needle_wash, replicate_injections=1)
    assert (found[0], found[2]) == ("10000.0 mAU·s", "not detected")
    if area_of_blank is None:
        assert found[1] == "not detected"
    else:
        # The two injections do not have exactly the same volume.
        assert float(found[1].removesuffix(" mAU·s")) == pytest.approx(area_of_blank, rel=0.02)


def test_samples_in_front_of_the_standard_are_not_contaminated(lab):
    small = build_vials(lab, {"responses": [PEAK]})
    found = small.read_values("HPLC", "blank last standard", needle_wash="none", replicate_injections=1)
    assert found == ["not detected", "not detected", "10000.0 mAU·s"]


@pytest.mark.parametrize(
    ("column", "flow_rate", "stopped"),
    [
        # 1012 x 1.44 mPa·s x 0.15 m x 1.003 mm/s / (5 µm)^2 = 88 bar at 30 °C
        ("C18, 150 x 4.6 mm, 5 µm", "1 mL/min", False),
        # 1012 x 1.44 mPa·s x 0.1 m x 0.962 mm/s / (1.8 µm)^2 = 433 bar at 0.2 mL/min; five times as much at 1 mL/min
        ("C18, 100 x 2.1 mm, 1.8 µm", "0.2 mL/min", False),
        ("C18, 100 x 2.1 mm, 1.8 µm", "1 mL/min", True),
    ],
)
def test_pump_stops_where_a_column_of_fine_particles_meets_a_fast_flow(lab, column, flow_rate, stopped):
    small = build_vials(lab, {"responses": [PEAK]})
    step = small.run_step(
        "HPLC", "standard", column=column, flow_rate=flow_rate, mobile_phase_b="methanol", column_temperature="30 °C",
        replicate_injections=1,
    )  # fmt: skip
    (seen,) = step.outcome.new_observations
    assert seen.value == ("" if stopped else "10000.0 mAU·s")
    assert ("pump stopped at its pressure limit of 600 bar" in seen.description) == stopped
    assert small.get_property("standard", "volume") == ("1 mL" if stopped else "990 µL")


@pytest.mark.parametrize(
    ("exposure", "values"),
    [
        ("0.1 s", ["1200 counts", "0.500"]),
        ("0.05 s", ["600 counts", "0.500"]),
        ("10 s", ["saturated", "saturated"]),  # 1200 x 100 and 1000 x 1.5 x 100 are above 65535
        ("0.001 s", ["12 counts", "0.500"]),
    ],
)
def test_camera_counts_grow_with_the_exposure_until_it_saturates(lab, exposure, values):
    signals = [
        {"action": "UseMicroscope", "component": "sensor cells", "per": "sensor cells", "noise": "0", **curve}
        for curve in (
            {"signal": "mean fluorescence", "unit": "counts", "slope": "1200 counts", "intercept": "0 counts"},
            {"signal": "response", "unit": "ΔF/F", "slope": "0.5 ΔF/F", "intercept": "0 ΔF/F"},
        )
    ]
    dish = build_material("dish", "adherent culture", container="35 mm dish", hidden={"sensor cells": "1e5 cells/mL"})
    small = SmallLab(lab.catalogue, dish, truth={"responses": signals})
    found = small.read_values(
        "UseMicroscope", "dish", mode="fluorescence", channels=["GFP 475/525"], exposure_time=exposure
    )  # fmt: skip
    assert [value.removesuffix(" ΔF/F") for value in found] == values


def run_cytometer(lab, *materials, **parameters):
    gfp = {
        "action": "FlowCytometry",
        "signal": "GFP-positive cells",
        "part": "green cells",
        "of": "HeLa cells",
        "background": "0",
    }
    small = SmallLab(lab.catalogue, *materials, truth={"fractions": [gfp]})
    keys = " ".join(material["key"] for material in materials)
    return small.run_step("FlowCytometry", keys, **parameters).outcome.new_observations


def test_cytometer_aborts_events_of_a_sample_that_is_too_dense(lab):
    # 60 µL/min of 4e7 cells/mL are 40 000 events per second; of 2e7 cells/mL 20 000
    dense = build_material("dense", "suspension", hidden={"HeLa cells": "4e7 cells/mL"})
    thin = build_material("thin", "suspension", hidden={"HeLa cells": "2e7 cells/mL"})
    first, second = run_cytometer(lab, dense, thin, flow_rate="60 µL/min")
    assert first.value == "" and "event rate above 35 000 per second, most events aborted" in first.description
    assert second.value == "0 % (0 of 10000 events)"


@pytest.mark.parametrize(("wash_between", "is_clean"), [(True, True), (False, False)])
def test_negative_sample_after_a_positive_one_is_contaminated_without_a_wash(lab, wash_between, is_clean):
    positive = build_material(
        "positive", "suspension", hidden={"HeLa cells": "1e6 cells/mL", "green cells": "1e6 cells/mL"}
    )
    negative = build_material("negative", "suspension", hidden={"HeLa cells": "1e6 cells/mL"})
    _, second = run_cytometer(lab, positive, negative, wash_between=wash_between)
    # 1 % of the first sample: 0.01 / 1.01 of 10000 events, 99 with a standard deviation of 10
    events = int(second.value.split("(")[1].split()[0])
    assert events == 0 if is_clean else 50 < events < 150


def run_gel(lab, amounts, **parameters):
    dna = build_material("dna", hidden=amounts)
    small = SmallLab(lab.catalogue, dna, build_material("ladder"), truth={"bands": GEL_BANDS})
    step = small.run_step("AgaroseGelElectrophoresis", "dna ladder", ladder="@ladder", **parameters)
    return next(seen.value for seen in step.outcome.new_observations if seen.description == "Gel lane of dna")


@pytest.mark.parametrize(
    ("agarose", "bands"),
    [
        # 26 of 352 bp are 7.4 %; resolved are 18 % / 2 = 9 % and 18 % / 3 = 6 %
        ("2 %", "one band at about 340 bp"),
        ("3 %", "one band at about 330 bp; one band at about 350 bp"),
    ],
)
def test_bands_that_the_gel_does_not_resolve_read_as_one(lab, agarose, bands):
    half = {"whole amplicon": "20 ng/µL", "cut amplicon": "20 ng/µL"}
    assert run_gel(lab, half, agarose=agarose, load_volume="5 µL") == bands


def test_overloaded_lane_smears_and_underloaded_lane_is_empty(lab):
    # 40 ng/µL: 20 µL hold 800 ng, 5 µL hold 200 ng; 1 ng/µL: 5 µL hold 5 ng of the 10 ng that are visible
    assert (
        run_gel(lab, {"whole amplicon": "40 ng/µL"}, load_volume="20 µL") == "one broad, smeared band at about 350 bp"
    )
    assert run_gel(lab, {"whole amplicon": "40 ng/µL"}, load_volume="5 µL") == "one band at about 350 bp"
    assert run_gel(lab, {"whole amplicon": "1 ng/µL"}, load_volume="5 µL") == "no band"


@pytest.mark.parametrize(
    ("exposure", "look"),
    [
        ("500 ms", "one band at about 350 bp"),
        ("20 ms", "no band"),  # visible from 10 ng x 500 / 20 = 250 ng on; there are 200 ng
        ("20 s", "whole lane white, image saturated"),
    ],
)
def test_gel_image_needs_the_right_exposure(lab, exposure, look):
    assert run_gel(lab, {"whole amplicon": "40 ng/µL"}, load_volume="5 µL", exposure_time=exposure) == look


def test_back_pressure_of_a_common_column_is_plausible(lab):
    # A 150 x 4.6 mm column of 5 µm has 60 to 120 bar at 1 mL/min of methanol and water.
    class Context:
        values = {"column": "C18, 150 x 4.6 mm, 5 µm", "mobile_phase_b": "methanol"}

        def get_number(self, name):
            return {"column_temperature": Decimal(30), "flow_rate": Decimal(1)}[name]

    assert round(compute_column_pressure(Context())) == 88


RETENTION = {"action": "HPLC", "component": "dye", "signal": "dye retention time", "unit": "min", "noise": "0",
             "table": [["0 µg/mL", "4 min"], ["1 mg/mL", "4 min"]],
             "scales_with": {"parameter": "flow_rate", "reference": "1 mL/min", "power": "-1"}}  # fmt: skip


@pytest.mark.parametrize(("flow_rate", "observed"), [("1 mL/min", 2), ("0.5 mL/min", None)])
def test_run_that_ends_before_the_peak_comes_shows_none(lab, flow_rate, observed):
    # The peak comes after 4 min at 1 mL/min, after 8 min at half the flow; the run takes 6 min.
    small = build_vials(lab, {"responses": [PEAK, RETENTION]})
    step = small.run_step("HPLC", "standard", flow_rate=flow_rate, run_time="6 min", replicate_injections=1)
    seen = step.outcome.new_observations
    if observed:
        assert [one.value for one in seen] == ["10000.0 mAU·s", "4.000 min"]
    else:
        assert len(seen) == 1 and seen[0].description.endswith("no peak within the run time of 6 min")
    assert small.get_property("standard", "volume") == "990 µL"


LATE_RETENTION = {"action": "HPLC", "component": "dye", "signal": "dye retention time", "unit": "min", "noise": "0",
             "table": [["0 µg/mL", "5.83 min"], ["1 mg/mL", "5.83 min"]]}  # fmt: skip
LATE_WIDTH = {"action": "HPLC", "parameter": "flow_rate", "within": ["dye"], "signal": "dye peak width at half height", "unit": "min",
         "noise": "0", "table": [["0.5 mL/min", "0.14 min"], ["1 mL/min", "0.14 min"]]}  # fmt: skip


def inject(lab, concentration, volume, column="C18, 150 x 4.6 mm, 5 µm", **parameters):
    """Return the retention time and the width of the peak in min."""
    vial = build_material("vial", contents={"dye": concentration}, container="2 mL vial")
    small = SmallLab(lab.catalogue, vial, truth={"responses": [LATE_RETENTION, LATE_WIDTH]})
    found = small.read_values(
        "HPLC", "vial", injection_volume=volume, column=column, replicate_injections=1, run_time="20 min", **parameters
    )
    return [float(value.removesuffix(" min")) for value in found]


@pytest.mark.parametrize(
    ("concentration", "volume", "retention", "width"),
    [
        # Little dye in little volume: the declared peak.
        ("10 µg/mL", "1 µL", 5.83, 0.140),
        # 1 µg: a load of 1 / (0.997 mL x 150 mg/mL) = 6.7e-6; base 4.33 min x 0.00517 = 0.0224 min, which is too little to see
        ("100 µg/mL", "10 µL", 5.83, 0.141),
        # A plug of 0.1 min: 2.355 sqrt(0.0595² + 0.1²/12)
        ("1 µg/mL", "100 µL", 5.83, 0.1557),
        # 100 µg: base 4.33 min x (2 sqrt(6.69e-4) - 6.69e-4) = 0.221 min, standard deviation 0.0521 min of 0.0842 min in all
        ("1 mg/mL", "100 µL", 5.83 - 0.221 * 0.0521 / 0.0842, 2.3548 * 0.0842),
    ],
)
def test_peaks_broaden_and_come_earlier_where_the_column_is_overloaded(lab, concentration, volume, retention, width):
    assert inject(lab, concentration, volume) == pytest.approx([retention, width], rel=0.006)


def test_a_narrow_column_is_overloaded_by_a_fraction_of_the_mass(lab):
    wide = inject(lab, "1 mg/mL", "10 µL")
    # At 0.2 mL/min, so that the pump can push it through the fine particles; the declared peak is the same.
    narrow = inject(
        lab, "1 mg/mL", "10 µL", "C18, 100 x 2.1 mm, 1.8 µm", flow_rate="0.2 mL/min", mobile_phase_b="acetonitrile"
    )
    # 10 µg load 0.997 mL of adsorbent to 6.7e-5, a base of 4.33 min x 0.0163 = 0.071 min or a standard deviation of 0.017 min,
    # and 0.139 mL to 4.8e-4, 4.79 min x 0.0433 = 0.207 min or 0.049 min, beside 0.0595 min of the declared peak and a plug of
    # 10 µL / 0.2 mL/min = 0.05 min, which adds 0.0144 min.
    assert wide[1] == pytest.approx(2.3548 * (0.0595**2 + 0.0167**2 + 0.0029**2) ** 0.5, rel=0.01)
    assert narrow[1] == pytest.approx(2.3548 * (0.0595**2 + 0.0489**2 + 0.0144**2) ** 0.5, rel=0.01)
    assert narrow[0] < wide[0] < 5.83
