"""Photobleaching: the light of a microscope destroys the fluorophores that it excites.

A vessel remembers how long each class of fluorophores was lit, in seconds of reference light. The share that still fluoresces
after a time t is 2^(-t / half-life): Shaner, Steinbach and Tsien, A guide to choosing fluorescent proteins, Nature Methods 2005,
list the times after which fluorescent proteins that emit 1000 photons per second have lost half of their emission. The reference
light is a tenth of that, as used for live cells: it takes about 3 mW/mm² at 488 nm for a green protein (extinction coefficient
55,000 per M and cm, quantum yield 0.6). A plate reader lights each well with flashes of microseconds, which bleach nothing.

All records of a vessel are taken to be of the same field.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from simulation.offline.action_context import ActionContext
from simulation.offline.ledger import ONE, ZERO
from simulation.offline.vessels import Vessel

_REFERENCE_POWER = Decimal("3.2")  # mW/mm²
_DIMMER = 10  # times fewer photons at the reference light than in the published measurement
LIGHT = "light: "  # prefix of the name of a class in `Vessel.elapsed`
_NANOMETRE = Decimal("1E-6")  # mm


class Fluorophore(NamedTuple):
    """A class of fluorophores: the shortest wavelength in nm that excites it, and the published half-life in s."""

    name: str
    shortest: int
    half_life: int


_FLUOROPHORES = (
    Fluorophore("blue", 0, 55),  # EBFP2 (Ai et al., Biochemistry 2007)
    Fluorophore("cyan", 405, 64),  # mCFP
    Fluorophore("green", 455, 174),  # EGFP, of which calcium and glutamate sensors are made
    Fluorophore("yellow", 500, 60),  # EYFP
    Fluorophore("red", 535, 96),  # mCherry
    Fluorophore("far red", 600, 53),  # mPlum
)
_HALF_LIVES = {kind.name: Decimal(kind.half_life * _DIMMER) for kind in _FLUOROPHORES}


def find_fluorophore(wavelength: Decimal) -> str:
    """Return the name of the class that light of this wavelength, in nm, excites."""
    return [kind.name for kind in _FLUOROPHORES if wavelength >= kind.shortest][-1]


def compute_share_left(name: str, seconds: Decimal) -> Decimal:
    """Return which share of a class of fluorophores still emits after so many seconds of reference light."""
    return Decimal(2) ** (-seconds / _HALF_LIVES[name])


def bleach(context: ActionContext, vessel: Vessel, response: Mapping[str, Any], true_value: Decimal) -> Decimal:
    """Return a signal as earlier light, and that of this record, leave it.

    Counts are those of the first frame, so they fall with the earlier light. ΔF/F compares the peak, as the compound or the
    stimulus acts, with the mean of the frames before: F0 does not fall with F in between. Ratios of two channels stay.
    """
    name = _find_recorded_fluorophore(context, response)
    if name is None:
        return true_value
    if response["unit"] == "counts":
        return true_value * compute_share_left(name, vessel.elapsed.get(LIGHT + name, ZERO))
    if response["unit"] != "ΔF/F":
        return true_value
    between = _measure_imaging_light(context)[name] * _find_share_before_event(context) / 2
    return (ONE + true_value) * compute_share_left(name, between) - ONE


def add_light(context: ActionContext, vessel: Vessel) -> None:
    """Add the light of a record, and that which stimulated the cells, to what the vessel remembers."""
    for name, seconds in (_measure_imaging_light(context) + _measure_stimulating_light(context)).items():
        vessel.elapsed[LIGHT + name] = vessel.elapsed.get(LIGHT + name, ZERO) + seconds


def _find_recorded_fluorophore(context: ActionContext, response: Mapping[str, Any]) -> str | None:
    """Return the class that a response is about: that of its first channel, else of the excitation that was set."""
    if context.action_type.name != "UseMicroscope" or not _is_fluorescence(context):
        return None
    channels = response.get("when", {}).get("channels")
    named = channels.get("all") if isinstance(channels, Mapping) else channels
    listed = [named] if isinstance(named, str) else named or context.values["channels"]
    return next(_list_excited(context, listed or ()), None)


def _list_excited(context: ActionContext, channels: Any) -> Iterator[str]:
    """Yield the class that each channel excites; without channels, that of the excitation wavelength."""
    for channel in channels:
        # "GFP 475/525": the centre of the excitation filter, then of the emission filter
        yield find_fluorophore(Decimal(re.findall("[0-9]+", channel)[-2]))
    if not channels and context.values["excitation_wavelength"] is not None:
        yield find_fluorophore(context.get_number("excitation_wavelength") / _NANOMETRE)


def _is_fluorescence(context: ActionContext) -> bool:
    return context.values["mode"] in ("fluorescence", "confocal")


def _measure_imaging_light(context: ActionContext) -> Counter[str]:
    """Return the seconds of light on the field in this record, by class: each channel is exposed in each frame and plane."""
    light: Counter[str] = Counter()
    for name in _list_excited(context, context.values["channels"] or ()) if _is_fluorescence(context) else ():
        light[name] += context.get_number("exposure_time") * _count_frames(context) * context.get_number("planes")  # type: ignore[assignment]  # Counter adds any number
    return light


def _measure_stimulating_light(context: ActionContext) -> Counter[str]:
    light: Counter[str] = Counter()
    if context.values["stimulation_power"] and context.values["stimulation_duration"]:
        lit = context.get_number("stimulation_duration") * context.get_number("stimulation_pulses")
        name = find_fluorophore(context.get_number("stimulation_wavelength") / _NANOMETRE)
        light[name] += lit * context.get_number("stimulation_power") / _REFERENCE_POWER  # type: ignore[assignment]  # as above
    return light


def _count_frames(context: ActionContext) -> Decimal:
    """Return the number of frames. Without an interval, the camera exposes one after the other."""
    if context.values["record_for"] is None:
        return ONE
    interval = context.values["frame_interval"] or context.values["exposure_time"]
    return Decimal(context.get_number("record_for") // interval) + 1


def _find_share_before_event(context: ActionContext) -> Decimal:
    """Return the share of the record before the first addition or stimulus; all of it without one."""
    if context.values["record_for"] is None:
        return ZERO
    times = [context.values["compound_at"]] if context.values["compound"] is not None else []
    times += [context.values["stimulation_at"] or ZERO] if context.values["stimulation_power"] else []
    return min(ONE, min(times) / context.get_number("record_for")) if times else ONE
