"""Instruments that deliver a volume or portion a solid: the digits of what is set, and how far the delivered amount is off."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple


class Dispenser(NamedTuple):
    """A pipette, graduated pipette or cylinder. Volumes and errors are in µL."""

    largest: Decimal  # the largest volume that it delivers at once
    step: Decimal  # of its scale
    systematic: Decimal  # the largest permitted systematic error
    random: Decimal  # the largest permitted standard deviation


# Piston pipettes: ISO 8655-2:2002, table 1 (limits of error of single-channel pipettes with an air interface, at the
# nominal volume; they apply as absolute errors to the whole range). Graduated pipette of 25 mL: ISO 835, class B.
# Cylinders: ISO 4788, class A. For glassware, whose standards give one limit, a quarter of it is the scatter of readings.
_DISPENSERS = tuple(
    Dispenser(*map(Decimal, limits))
    for limits in (
        ("2", "0.01", "0.08", "0.04"),
        ("10", "0.01", "0.12", "0.08"),
        ("20", "0.1", "0.2", "0.1"),
        ("200", "0.1", "1.6", "0.6"),
        ("1000", "1", "8", "3"),
        ("5000", "10", "40", "15"),
        ("10000", "10", "60", "30"),
        ("25000", "100", "200", "50"),
        ("100000", "1000", "500", "125"),
        ("250000", "1000", "1000", "250"),
        ("500000", "1000", "2500", "625"),
        ("1000000", "1000", "5000", "1250"),
        ("2000000", "1000", "10000", "2500"),
    )
)


def choose_dispenser(volume: Decimal) -> Dispenser:
    """Return the smallest dispenser that delivers the volume at once, or the largest of all."""
    return next((dispenser for dispenser in _DISPENSERS if volume <= dispenser.largest), _DISPENSERS[-1])


def format_delivered_volume(volume: Decimal) -> str:
    """Return a volume with the digits of the scale on which it was set: "50.0 µL", "2.50 mL"."""
    step = choose_dispenser(volume).step
    unit, size = ("mL", 1000) if volume >= 1000 else ("µL", 1)
    decimals = max(0, -(step / size).adjusted())
    return f"{volume / size:.{decimals}f} {unit}"


def choose_readability(mass: Decimal) -> Decimal:
    """Return the step in µg of the balance on which a portion is weighed: 0.1 mg, or 1 µg for less than 10 mg."""
    return Decimal(1) if mass < 10_000 else Decimal("1E2")


def format_weighed_masses(masses: Sequence[Decimal]) -> str:
    """Return the masses of portions in grams, with the digits of the balance: "0.1003, 0.0991 g"."""
    decimals = 6 if any(mass % 100 for mass in masses) else 4
    return f"{', '.join(f'{mass / 10**6:.{decimals}f}' for mass in masses)} g"


# A serviced pipette performs at about half of the limits of its standard, which are those of acceptance.
_SERVICED = 0.5
# Relative errors of an acoustic dispenser: half of the accuracy (10 %) and of the coefficient of variation (8 %) that the
# Echo 600 series is specified with.
_ACOUSTIC_SYSTEMATIC, _ACOUSTIC_RANDOM = 0.05, 0.04
# A volumetric flask of class A is filled to 0.1 % at 100 mL (ISO 1042); half of it is the scatter of flasks and readings.
_MARK_SCATTER = 0.0005
# Nobody spoons out exactly 100 mg. The mass of a weighed portion scatters around the one that was asked for by 1 mg and 0.1 %,
# but by no more than 1 % (standard deviations), and is at most 3 % off. The European Pharmacopoeia permits 10 % for "about"
# (General Notices 1.2).
_GRAIN_SCATTER, _PORTION_SCATTER, _MOST_PORTION_SCATTER = 1000.0, 0.001, 0.01  # µg, and shares of the mass
_LARGEST_PORTION_ERROR = 0.03


@dataclass(frozen=True)
class DeliveryErrors:
    """The errors of all volumes delivered in one step. The same seed, step, source and number give the same error."""

    seed_parts: tuple[object, ...]  # the episode's seed, and the step

    def compute_ratio(self, volume: Decimal, source: str, number: int, acoustic: bool = False) -> Decimal:
        """Return the delivered volume divided by the one that was set."""
        rng = _create_rng(*self.seed_parts, "delivery", source, number)
        if acoustic:
            offset = _draw_systematic_share(self.seed_parts[0], "acoustic") * _ACOUSTIC_SYSTEMATIC
            return _round_ratio(1 + offset + rng.gauss(0, _ACOUSTIC_RANDOM))
        dispenser = choose_dispenser(volume)
        # The same pipette is used throughout the episode, so its systematic error is the same in all steps.
        offset = _draw_systematic_share(self.seed_parts[0], str(dispenser.largest)) * float(dispenser.systematic)
        error = _SERVICED * (offset + rng.gauss(0, float(dispenser.random)))
        return _round_ratio(1 + error / float(volume))

    def compute_weighed_mass(self, mass: Decimal, source: str, number: int) -> Decimal:
        """Return the mass of a weighed portion as the balance displays it. All masses are in µg."""
        scatter = min(_MOST_PORTION_SCATTER, _PORTION_SCATTER + _GRAIN_SCATTER / float(mass))
        deviate = _create_rng(*self.seed_parts, "portion", source, number).gauss(0, scatter)
        error = min(max(deviate, -_LARGEST_PORTION_ERROR), _LARGEST_PORTION_ERROR)
        return (mass * _round_ratio(1 + error)).quantize(choose_readability(mass))

    def compute_mark_ratio(self, vessel: str) -> Decimal:
        """Return the volume up to the mark of a volumetric flask divided by its nominal volume."""
        return _round_ratio(1 + _create_rng(*self.seed_parts, "mark", vessel).gauss(0, _MARK_SCATTER))


@lru_cache(maxsize=1024)  # one for each seed and pipette; an episode delivers hundreds of volumes
def _draw_systematic_share(seed: object, dispenser: str) -> float:
    """Return the systematic error of a dispenser as a share of its limit, from -1 to 1."""
    return _create_rng(seed, "dispenser", dispenser).uniform(-1, 1)


def _create_rng(*parts: object) -> random.Random:
    return random.Random(repr(parts))  # hashed with SHA-512, so the result does not depend on PYTHONHASHSEED


def _round_ratio(ratio: float) -> Decimal:
    # Rounded, so that outcomes do not depend on the last digits of floating-point functions.
    return Decimal(str(round(max(0.0, ratio), 6)))
