"""How the settings of a run spoil a measurement: back pressure and load of a column, carryover, exposure and the rate of events."""

import re
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, NamedTuple

from simulation.offline.action_context import ActionContext
from simulation.offline.ledger import ONE, ZERO, Contents

_COLUMN = re.compile(r"(?P<length>[0-9.]+) x (?P<diameter>[0-9.]+) mm, (?P<particle>[0-9.]+) µm")
_MOST_PRESSURE = Decimal(600)  # bar; pumps stop there (1260 Infinity)
_POROSITY = Decimal("0.4")  # share of a packed bed that is between the particles
_TOTAL_POROSITY = Decimal("0.6")  # with the pores of the particles: what the mobile phase fills, 1.5 mL of 150 x 4.6 mm
# µg per mL of adsorbent that would cover it (saturation capacity). Isotherms of small molecules on C18 phases end at 100 to 250
# mg/mL (Gritti and Guiochon).
_SATURATION = Decimal(150_000)
_HALF_HEIGHT = Decimal("2.3548")  # width of a Gaussian peak at half its height / its standard deviation
_PI = Decimal("3.14159265")
# mPa·s at 25 °C of the most viscous mixture with water that a run may pass through, and its change per °C.
_VISCOSITIES = {"methanol": Decimal("1.6"), "acetonitrile": Decimal("1.0")}
_THINNING = Decimal("0.02")
_FULL_SCALE = Decimal(65535)
_BASELINE = Decimal(1000)  # counts of a resting cell at the reference exposure, for signals that are given as ratios
_LEAST_EXPOSURE = Decimal("0.01")  # of the reference: below it nothing is brighter than the camera's noise
_NO_SIGNAL = "no signal above the background"
# Events per second that a cytometer with a common fluidic system tells apart (BD FACSLyric).
MOST_EVENTS_PER_SECOND = Decimal(35_000)


class Carryover(NamedTuple):
    """Which setting leaves some of a sample in the flow path, and what share of it reaches the next sample."""

    parameter: str
    without_washing: object
    share: Decimal


_CARRYOVER = {
    "HPLC": Carryover("needle_wash", "none", Decimal("0.005")),
    "FlowCytometry": Carryover("wash_between", False, Decimal("0.01")),
}
# Action -> (exposure in s at which the declared signals hold, units of signals that grow with it).
_EXPOSURES = {"UseMicroscope": (Decimal("0.1"), ("counts",)), "CapillaryWestern": (Decimal(30), ("",))}


def add_carryover(context: ActionContext, previous: Contents | None, measured: Contents) -> Contents:
    """Return what an instrument measures of a sample: with some of the previous one if it was not washed out."""
    carryover = _CARRYOVER.get(context.action_type.name)
    if carryover is None or previous is None or context.values[carryover.parameter] != carryover.without_washing:
        return measured
    carried, _ = previous.split_share(carryover.share)
    # Its volume is negligible, and a trace does not make the sample one of several origins.
    return measured + replace(carried, origins={}, volume=ZERO, mass=None)


def compute_column_pressure(context: ActionContext) -> Decimal | None:
    """Return the back pressure of an HPLC column in bar (Kozeny-Carman), or None if its dimensions are not known.

    pressure = 180 x viscosity x length x velocity x (1 - porosity)^2 / (porosity^3 x particle diameter^2), with the velocity
    in the empty column.
    """
    if (column := _COLUMN.search(str(context.values["column"]))) is None:
        return None
    length, diameter, particle = (
        Decimal(column[name]) * scale
        for name, scale in (("length", Decimal("1E-3")), ("diameter", Decimal("1E-3")), ("particle", Decimal("1E-6")))
    )
    warmer = context.get_number("column_temperature") - 25
    viscosity = _VISCOSITIES[context.values["mobile_phase_b"]] / 1000 * max(Decimal("0.3"), 1 - _THINNING * warmer)
    flow = context.get_number("flow_rate") / 60 / 10**6  # mL/min to m³/s
    velocity = flow / (_PI * diameter**2 / 4)
    packing = 180 * (1 - _POROSITY) ** 2 / _POROSITY**3
    return packing * viscosity * length * velocity / particle**2 / 10**5


class Peak(NamedTuple):
    """A chromatographic peak: retention time and width at half height, both in min."""

    retention: Decimal
    width: Decimal


def overload_column(context: ActionContext, peak: Peak, concentration: Decimal | None) -> Peak:
    """Return a declared HPLC peak as it is with the mass and volume injected. `concentration` is in µg/mL, None if unknown.

    The variances of three causes add up: the declared peak (width / 2.355)², the plug of volume V injected at the flow F,
    (V/F)² / 12, and the triangle into which a Langmuir isotherm distorts a band, W² / 18, with
    W = t0 k (2 sqrt(Lf) - Lf) and the load Lf = mass injected / saturation capacity of the column (ideal model, Golshan-Shirazi and
    Guiochon 1988). The triangle grows towards earlier times, so the peak moves by W when it dominates, and by a share of W equal to
    its share of the standard deviation before, which is in proportion to the mass.
    """
    if (column := _COLUMN.search(str(context.values["column"]))) is None:
        return peak
    empty_volume = _PI * Decimal(column["diameter"]) ** 2 / 4 * Decimal(column["length"]) / 1000  # mL
    flow = context.get_number("flow_rate")  # mL/min
    injected = context.get_number("injection_volume") / 1000  # mL
    hold_up_time = empty_volume * _TOTAL_POROSITY / flow
    load = (concentration or ZERO) * injected / (empty_volume * (1 - _TOTAL_POROSITY) * _SATURATION)
    load = min(load, ONE)
    base = max(ZERO, peak.retention - hold_up_time) * (2 * load.sqrt() - load)
    variance = (peak.width / _HALF_HEIGHT) ** 2 + (injected / flow) ** 2 / 12 + base**2 / 18
    deviation = variance.sqrt()
    return Peak(peak.retention - base * (base / Decimal(18).sqrt()) / deviation, _HALF_HEIGHT * deviation)


def describe_pump_stop(context: ActionContext) -> str:
    """Return what the pump records if the column's back pressure exceeds its limit; "" if the run is possible."""
    pressure = compute_column_pressure(context)
    if pressure is None or pressure <= _MOST_PRESSURE:
        return ""
    return f"pump stopped at its pressure limit of {_MOST_PRESSURE} bar, nothing injected"


def expose(context: ActionContext, response: Mapping[str, Any], true_value: Decimal) -> tuple[Decimal, str]:
    """Return (signal at this exposure, what is recorded instead of a number, or "").

    A signal in counts grows with the exposure. A ratio of two signals does not, but is lost when the camera saturates.
    """
    if context.action_type.name not in _EXPOSURES or context.values.get("exposure_time") is None:
        return true_value, ""
    reference, growing = _EXPOSURES[context.action_type.name]
    factor = context.get_number("exposure_time") / reference
    if factor < _LEAST_EXPOSURE:
        return true_value, _NO_SIGNAL
    if response["unit"] in growing:
        return true_value * factor, ""
    if response["unit"] in ("ΔF/F", "R/R0") and factor * _BASELINE * (ONE + true_value) > _FULL_SCALE:
        return true_value, "saturated"
    return true_value, ""


def is_too_dense(context: ActionContext, loaded: Contents, names: tuple[str, ...]) -> bool:
    """Return whether more cells and particles pass the laser in a second than a cytometer tells apart."""
    known = [density for name in names if (density := loaded.compute_concentration(name)) is not None]
    return sum(known, ZERO) * context.get_number("flow_rate") / 60 > MOST_EVENTS_PER_SECOND
