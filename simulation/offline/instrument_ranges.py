"""The measuring range and resolution of every instrument that reports numbers.

A reading outside the range is reported as the instrument reports it, never as a number. Ranges and resolutions are those of common
models of each kind; the comment beside a row names one whose data sheet has these numbers.
"""

from decimal import Decimal
from typing import NamedTuple

from simulation.lab.quantities import write_digits


class MeasuringRange(NamedTuple):
    """The lowest and highest reading of one kind of signal, and the smallest step that the instrument displays.

    `above` and `below` are what it reports outside the range. Without such a text the limit itself is shown: a share
    that is computed from counts never exceeds 100 %. `digits` is the number of significant digits, 0 for all.
    """

    low: Decimal
    high: Decimal
    resolution: Decimal
    above: str = "above range"
    below: str = "below range"
    digits: int = 0

    def covers(self, low: Decimal, high: Decimal) -> bool:
        """Return whether no reading between these two is reported as out of range."""
        return (low >= self.low or not self.below) and (high <= self.high or not self.above)

    def format_reading(self, reading: Decimal) -> str:
        """Return the reading as the instrument displays it, without its unit."""
        if reading > self.high and self.above:
            return self.above
        if reading < self.low and self.below:
            return self.below
        shown, step = min(max(reading, self.low), self.high), self.resolution
        if self.digits:
            step = max(step, Decimal(1).scaleb(shown.adjusted() - self.digits + 1))
        # Adding zero turns -0 into 0: no instrument shows a minus before zero.
        return write_digits(shown.quantize(step) + 0)


def _range(low: str, high: str, step: str, above: str = "above range", below: str = "below range") -> MeasuringRange:
    return MeasuringRange(Decimal(low), Decimal(high), Decimal(step), above, below)


def _counts(high: str, step: str = "1", above: str = "saturated", digits: int = 0) -> MeasuringRange:
    """Return the range of a signal that is never shown below zero, as of anything that is counted."""
    return MeasuringRange(Decimal(0), Decimal(high), Decimal(step), above, "", digits)


_PH = {"": _range("0", "14", "0.01")}
_CAMERA = _counts("65535")  # 16-bit camera
_CALCIUM_TRACES = {  # computed from the frames of a record
    "ΔF/F": _range("-1", "100", "0.001"),
    "R/R0": _range("0", "100", "0.001"),
    "s": _counts("259200", "0.01"),  # the longest record is 72 h
}
_PERCENT = {"%": _counts("100", "0.01", above="")}
_PER_ML = {"1/mL": _counts("1E12", above="too concentrated to count", digits=3)}
# Action -> unit of the signal -> range. An action that is not listed here may declare any unit.
RANGES: dict[str, dict[str, MeasuringRange]] = {
    "AdjustpH": _PH,
    "MeasurepH": _PH,
    # Below zero, because a sample may absorb less than the blank; up to 3 as in the Cary 60.
    "UsePhotospectrometer": {
        "AU": _range("-0.3", "3", "0.001"),
        "%": _range("0", "120", "0.1"),
        "RFU": _counts("65535"),
    },
    "UsePlateReader": {
        "AU": _range("-0.3", "4", "0.001"),  # SpectraMax: 0 to 4 OD
        "RFU": _counts("260000"),  # CLARIOstar
        "RLU": _counts("2E9"),
        "counts": _counts("260000"),
        "": _counts("100", "0.001"),  # ratio of two emissions
        **_CALCIUM_TRACES,
    },
    "UseMicroscope": {
        "counts": _CAMERA,
        "": _counts("10000", "0.001"),  # ratio of two channels, or objects counted in a cell
        "AU": _range("-0.3", "3", "0.001"),
        **_PERCENT,
        **_CALCIUM_TRACES,
    },
    "ImageColonies": {"counts": _CAMERA, "mm": _range("0.1", "50", "0.1")},
    "AgaroseGelElectrophoresis": {"counts": _CAMERA},
    "PAGE": {"counts": _CAMERA, "kDa": _range("1", "500", "0.1")},
    "FlowCytometry": {"a.u.": _counts("262143", above="off scale"), **_PERCENT, **_PER_ML},  # 18 bits
    # The largest peak on scale is 2000 mAU high and 9.4 s wide at half its height: 1.064 times the product of both.
    "HPLC": {
        "mAU·s": _counts("20000", "0.1", "detector saturated, peak with a flat top"),
        "min": _counts("90", "0.001"),
        "mAU": _range("-10", "2000", "0.01", "detector saturated"),
        "": _counts("1E6", "0.01"),  # plates, tailing, resolution
        "bar": _counts("600"),
    },
    "CapillaryElectrophoresis": {
        "mAU·s": _counts("20000", "0.1", "detector saturated"),
        "min": _counts("120", "0.001"),
        "RFU·s": _counts("1E6", "0.1", "detector saturated"),
    },
    "MassSpectrometry": {
        "counts/s": _counts("1E9", above="detector saturated"),  # electron multiplier, pulse and analogue mode
        "µg/L": _range("-10", "1E6", "0.01"),
        "m/z": _range("1", "200000", "0.0001"),
    },
    "CapillaryWestern": {"": _counts("1E8"), "kDa": _range("2", "440", "1")},
    "ELISA": {"AU": _range("-0.3", "4", "0.001")},
    "CapillaryELISA": {"RFU": _counts("100000"), "pg/mL": _counts("1E6", "0.01", "above range")},
    "qPCR": {"Ct": _range("8", "40", "0.01", "no Ct"), "cycles": _range("8", "40", "0.01", "no Ct")},
    "BioLayerInterferometry": {"nm": _range("-10", "100", "0.001"), "1/s": _range("1E-6", "1", "1E-6")},
    "NucleicAcidQuantification": {
        "ng/µL": _range("-10", "27500", "0.1"),  # NanoDrop One, double-stranded DNA
        "": _range("-5", "5", "0.01"),  # ratios of absorbances
    },
    "TotalProteinQuantification": {"mg/mL": _range("-1", "400", "0.001"), "AU": _range("-0.3", "4", "0.001")},
    "MeasureOsmolality": {"mOsm/kg": _counts("2000", "1", "above range")},  # OsmoPRO; pure water reads 0
    "MeasureConductivity": {"mS/cm": _range("0", "1000", "0.001"), "µS/cm": _range("0", "1E6", "0.1")},
    "MeasureDissolvedOxygen": {"mg/L": _range("0", "50", "0.01"), "%": _range("0", "500", "0.1")},
    "MeasureSurfaceTension": {"mN/m": _range("1", "1000", "0.1")},
    "MeasureContactAngle": {"°": _range("0", "180", "0.1")},
    "MeasureRefractiveIndex": {"": _range("1.3", "1.7", "0.0001")},  # Abbe refractometer
    "MeasureDensity": {"g/mL": _range("0", "3", "0.0001")},  # DMA 4500
    "MeasureViscosity": {"mPa·s": _range("0.2", "100000", "0.01")},  # m-VROC
    "MeasureMeltingPoint": {"°C": _range("-10", "400", "0.1")},
    "CyclicVoltammetry": {
        # The current range is switched, so the number of digits stays the same.
        "µA": MeasuringRange(Decimal(-10000), Decimal(10000), Decimal("0.0001"), "overload", "overload", digits=4),
        "V": _range("-10", "10", "0.0001"),
    },
    "DynamicFoamAnalysis": {"mm": _counts("250", "0.1", "above range"), "s": _counts("86400"), **_PERCENT},
    "CoulterCount": _PER_ML,
    "CountLiquidParticles": _PER_ML,
}


def find_range(action: str, unit: str) -> MeasuringRange | None:
    """Return the range of an action's signals in this unit, or None if none is listed."""
    return RANGES.get(action, {}).get(unit)
