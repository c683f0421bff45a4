"""The measuring range and resolution of every instrument that reports numbers.

A reading outside the range is reported as the instrument reports it, never as a number. Ranges and resolutions are those of common
models of each kind; the comment beside a row names one whose data sheet has these numbers.
"""

from decimal import Decimal
from typing import NamedTuple


class MeasuringRange(NamedTuple):
    """The lowest and highest reading of one kind of signal and the smallest step that the instrument displays."""

    low: Decimal
    high: Decimal
    resolution: Decimal
    above: str = "above range"  # what the instrument reports for a higher reading
    below: str = "below range"

    def describe_outside(self, reading: Decimal) -> str:
        """Return what the instrument reports instead of a number, or "" if the reading is within the range."""
        return self.above if reading > self.high else self.below if reading < self.low else ""


def _range(low: str, high: str, resolution: str, above: str = "above range") -> MeasuringRange:
    return MeasuringRange(Decimal(low), Decimal(high), Decimal(resolution), above)


_PH = {"": _range("0", "14", "0.01")}
_CAMERA = _range("0", "65535", "1", "saturated")  # 16-bit camera
_CALCIUM_TRACES = {  # computed from the frames of a record
    "ΔF/F": _range("-1", "100", "0.001"),
    "R/R0": _range("0", "100", "0.001"),
    "s": _range("0", "259200", "0.01"),  # the longest record is 72 h
}
_PERCENT = {"%": _range("0", "100", "0.01")}
_PARTICLES_PER_ML = {"1/mL": _range("0", "1E12", "1")}
# Action -> unit of the signal -> range. An action that is not listed here may declare any unit.
RANGES: dict[str, dict[str, MeasuringRange]] = {
    "AdjustpH": _PH,
    "MeasurepH": _PH,
    # Below zero, because the sample may absorb less than the blank; to 3 as in the Cary 60.
    "UsePhotospectrometer": {
        "AU": _range("-0.3", "3", "0.001"),
        "%": _range("0", "120", "0.1"),
        "RFU": _range("0", "65535", "1", "saturated"),
    },
    "UsePlateReader": {
        "AU": _range("-0.3", "4", "0.001"),  # SpectraMax: 0 to 4 OD
        "RFU": _range("0", "260000", "1", "saturated"),  # CLARIOstar: 260,000 counts
        "RLU": _range("0", "2E9", "1", "saturated"),
        "counts": _range("0", "260000", "1", "saturated"),
        "": _range("0", "100", "0.001"),  # ratio of two emissions
        **_CALCIUM_TRACES,
    },
    "UseMicroscope": {
        "counts": _CAMERA,
        "": _range("0", "10000", "0.001"),  # ratio of two channels, or objects counted in a cell
        "AU": _range("0", "3", "0.001"),
        **_PERCENT,
        **_CALCIUM_TRACES,
    },
    "ImageColonies": {"counts": _CAMERA, "mm": _range("0.1", "50", "0.1")},
    "AgaroseGelElectrophoresis": {"counts": _CAMERA},
    "PAGE": {"counts": _CAMERA, "kDa": _range("1", "500", "0.1")},
    "FlowCytometry": {
        "a.u.": _range("0", "262143", "1", "off scale"),  # 18 bits
        **_PERCENT,
        **_PARTICLES_PER_ML,
    },
    # The highest peak on scale: 2000 mAU high and 9.4 s wide at half its height, 1.064 times the product of both.
    "HPLC": {
        "mAU·s": _range("0", "20000", "0.1", "detector saturated, peak with a flat top"),
        "min": _range("0", "90", "0.001"),
        "mAU": _range("-10", "2000", "0.01", "detector saturated"),
        "": _range("0", "1E6", "0.01"),  # plates, tailing, resolution
        "bar": _range("0", "600", "1"),
    },
    "CapillaryElectrophoresis": {
        "mAU·s": _range("0", "20000", "0.1", "detector saturated"),
        "min": _range("0", "120", "0.001"),
        "RFU·s": _range("0", "1E6", "0.1", "detector saturated"),
    },
    "MassSpectrometry": {
        "counts/s": _range("0", "1E9", "1", "detector saturated"),  # dual-mode electron multiplier
        "m/z": _range("1", "200000", "0.0001"),
    },
    "CapillaryWestern": {"": _range("0", "1E8", "1", "saturated"), "kDa": _range("2", "440", "1")},
    "ELISA": {"AU": _range("-0.3", "4", "0.001")},
    "CapillaryELISA": {"RFU": _range("0", "100000", "1", "saturated"), "pg/mL": _range("0", "1E6", "0.01")},
    "qPCR": {"Ct": _range("8", "40", "0.01", "no Ct"), "cycles": _range("8", "40", "0.01", "no Ct")},
    "BioLayerInterferometry": {"nm": _range("-10", "100", "0.001"), "1/s": _range("1E-6", "1", "1E-6")},
    # NanoDrop One: 2 to 27,500 ng/µL of double-stranded DNA; a fluorometer reads less, so the limit is declared with the response.
    "NucleicAcidQuantification": {"ng/µL": _range("-10", "27500", "0.1"), "": _range("-5", "5", "0.01")},
    "TotalProteinQuantification": {"mg/mL": _range("0", "400", "0.001"), "AU": _range("-0.3", "4", "0.001")},
    "MeasureOsmolality": {"mOsm/kg": _range("0", "2000", "1")},  # OsmoPRO
    "MeasureConductivity": {"mS/cm": _range("0", "1000", "0.001"), "µS/cm": _range("0", "1E6", "0.1")},
    "MeasureDissolvedOxygen": {"mg/L": _range("0", "50", "0.01"), "%": _range("0", "500", "0.1")},
    "MeasureSurfaceTension": {"mN/m": _range("1", "1000", "0.1")},
    "MeasureContactAngle": {"°": _range("0", "180", "0.1")},
    "MeasureRefractiveIndex": {"": _range("1.3", "1.7", "0.0001")},  # Abbe refractometer
    "MeasureDensity": {"g/mL": _range("0", "3", "0.0001")},  # DMA 4500
    "MeasureViscosity": {"mPa·s": _range("0.2", "100000", "0.01")},  # m-VROC
    "MeasureMeltingPoint": {"°C": _range("-10", "400", "0.1")},
    "CyclicVoltammetry": {"µA": _range("-10000", "10000", "0.001", "overload"), "V": _range("-10", "10", "0.0001")},
    "DynamicFoamAnalysis": {"mm": _range("0", "250", "0.1"), "s": _range("0", "86400", "1"), **_PERCENT},
    "CoulterCount": _PARTICLES_PER_ML,
    "CountLiquidParticles": _PARTICLES_PER_ML,
}


def find_range(action: str, unit: str) -> MeasuringRange | None:
    """Return the range of an action's signals in this unit, or None if none is listed."""
    return RANGES.get(action, {}).get(unit)
