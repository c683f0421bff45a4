"""Instruments that deliver a volume: with how many digits a volume is set, and how far the delivered one may be off."""

from decimal import Decimal
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
