"""The hidden account of what is inside a material, in exact decimal numbers.

Moving a share splits every component. What stays is computed as total minus moved, so that nothing is lost to rounding.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, NamedTuple, Self

from simulation.lab import quantities
from simulation.lab.materials import CONTENT_KINDS

ZERO, ONE = Decimal(0), Decimal(1)
# Concentrations are amounts per millilitre, but volumes are stored in µL.
_PER_ML = Decimal(1000)
# Amounts are rounded to multiples of this. Division would otherwise give endless digits, whose sums are not exact.
_SMALLEST_AMOUNT = Decimal("1E-12")


class Component(NamedTuple):
    """A substance in a material.

    `amount` is the total in the base unit of its dimension, or None if unknown. `known` is whether people may see it.
    `kind` is the state of the substance: dissolved, cells or particles (both settle and stay on a filter), or attached
    to the vessel.
    """

    dimension: str
    amount: Decimal | None
    known: bool
    kind: str = ""


DISSOLVED, CELLS, PARTICLES, ATTACHED = CONTENT_KINDS


def infer_content_kind(name: str, declared_kind: str) -> str:
    """Return the declared kind. If none is declared, a name with "cells" means cells and everything else is dissolved."""
    return declared_kind or (CELLS if "cells" in name else DISSOLVED)


def round_to_grain(amount: Decimal) -> Decimal:
    """Round an amount to a multiple of 1E-12, so that sums and differences of amounts stay exact."""
    return amount.quantize(_SMALLEST_AMOUNT)


@dataclass(frozen=True)
class Contents:
    """The components of a material, its volume in µL and its bulk mass in µg (None if unknown), and its origins.

    `origins` is the share of each initial material that is in this one.
    """

    components: Mapping[str, Component] = field(default_factory=dict)
    origins: Mapping[str, Decimal] = field(default_factory=dict)
    volume: Decimal | None = ZERO
    mass: Decimal | None = None

    @classmethod
    def from_ledger(cls, ledger: Mapping[str, Any]) -> Self:
        components = {
            name: Component(part["dimension"], _parse_decimal(part.get("amount")), part["known"], part.get("kind", ""))
            for name, part in ledger.get("components", {}).items()
        }
        origins = {key: Decimal(share) for key, share in ledger.get("origins", {}).items()}
        return cls(components, origins, _parse_decimal(ledger.get("volume")), _parse_decimal(ledger.get("mass")))

    def to_ledger(self, key: str = "") -> dict[str, Any]:
        ledger: dict[str, Any] = {"key": key} if key else {}
        ledger["components"] = {
            name: {"dimension": part.dimension, "amount": _format_decimal(part.amount), "known": part.known}
            | ({"kind": part.kind} if part.kind else {})
            for name, part in self.components.items()
        }
        ledger["origins"] = {name: _format_decimal(share) for name, share in self.origins.items()}
        if self.volume is not None:
            ledger["volume"] = _format_decimal(self.volume)
        if self.mass is not None:
            ledger["mass"] = _format_decimal(self.mass)
        return ledger

    def get_amount(self, name: str) -> Decimal | None:
        """Return the total amount of a component: zero if the component is absent, None if the amount is unknown."""
        return self.components[name].amount if name in self.components else ZERO

    def compute_concentration(self, name: str) -> Decimal | None:
        """Return a component's concentration in its base unit; None if amount or volume is unknown or volume is 0."""
        amount = self.get_amount(name)
        if amount is None or not self.volume:
            return None
        if name in self.components and self.components[name].dimension == "volume":
            # A liquid in a liquid is given in % v/v, not per millilitre.
            return amount / self.volume * 100
        return amount / self.volume * _PER_ML

    def split_share(self, share: Decimal, keep: Collection[str] = ()) -> tuple["Contents", "Contents"]:
        """Return (moved, left) for a share of everything except the components in `keep`, which stay entirely.

        Components that stay descend from the same initial materials as those that move. So if any stay, half of the
        origin shares that would move stay with them.
        """
        moved, remaining = {}, {}
        for name, part in self.components.items():
            moving, staying = _split_amount(part.amount, ZERO if name in keep else share)
            # Unknown amounts are listed on both sides: the component may be in either.
            if moving is None or moving > 0:
                moved[name] = part._replace(amount=moving)
            if staying is None or staying > 0:
                remaining[name] = part._replace(amount=staying)
        descent = share / 2 if any(name in keep for name in self.components) else share
        moved_origins = {name: _compute_share(total, descent) for name, total in self.origins.items()}
        left_origins = {name: total - moved_origins[name] for name, total in self.origins.items()}
        volume, mass = (None if total is None else _compute_share(total, share) for total in (self.volume, self.mass))
        return (
            Contents(moved, _drop_empty_shares(moved_origins), volume, mass),
            Contents(
                remaining,
                _drop_empty_shares(left_origins),
                _subtract_amounts(self.volume, volume),
                _subtract_amounts(self.mass, mass),
            ),
        )

    def take_volume(self, volume: Decimal, keep: Collection[str] = ()) -> tuple["Contents", "Contents"]:
        """Return (moved, left) for exactly this volume. The volume must be known and large enough."""
        assert self.volume is not None and ZERO < volume <= self.volume, "callers check what is there"
        moved, remaining = self.split_share(volume / self.volume, keep)
        # The volumes are set again: the share is a quotient, so volume times share may differ in the last digit.
        return replace(moved, volume=volume), replace(remaining, volume=self.volume - volume)

    def list_components_of_kind(self, *kinds: str) -> tuple[str, ...]:
        return tuple(name for name, part in self.components.items() if infer_content_kind(name, part.kind) in kinds)

    def compute_dry_mass(self) -> Decimal | None:
        """Return the sum of all components' masses in µg, or None if one is unknown or not measured by mass."""
        parts = self.components.values()
        known = [part.amount for part in parts if part.dimension == "mass" and part.amount is not None]
        return sum(known, ZERO) if len(known) == len(parts) else None

    def separate_components(self, names: Collection[str]) -> tuple["Contents", "Contents"]:
        """Return (these components without liquid, everything else with the liquid)."""
        chosen = {name: part for name, part in self.components.items() if name in names}
        others = {name: part for name, part in self.components.items() if name not in names}
        return Contents(chosen, {}, ZERO, None), replace(self, components=others)

    def __add__(self, other: "Contents") -> "Contents":
        components = dict(self.components)
        for name, part in other.components.items():
            own_part = components.get(name)
            components[name] = part if own_part is None else _add_components(own_part, part)
        origins = dict(self.origins)
        for name, share in other.origins.items():
            origins[name] = origins.get(name, ZERO) + share
        volume = None if self.volume is None or other.volume is None else self.volume + other.volume
        mass = None if self.mass is None or other.mass is None else self.mass + other.mass
        return Contents(components, origins, volume, mass)

    def with_component(self, name: str, part: Component) -> "Contents":
        """Return a copy with this much of one component; the component is removed if its amount is zero."""
        components = {**self.components, name: part}
        if part.amount is not None and part.amount <= 0:
            del components[name]
        return replace(self, components=components)

    def format_known_components(self) -> dict[str, str]:
        """Return the concentrations and amounts that people may see, as properties of a material."""
        properties = {}
        for name, part in self.components.items():
            # Amounts that nobody measured stay in the ledger and must not be displayed.
            if not part.known or part.amount is None:
                continue
            concentration = self.compute_concentration(name)
            if concentration is None:
                properties[f"{name} amount"] = quantities.format_quantity(part.amount, part.dimension)
            else:
                properties[f"{name} concentration"] = quantities.format_concentration(
                    name, concentration, part.dimension
                )
        return properties


def _compute_share(total: Decimal, share: Decimal) -> Decimal:
    # A share of one moves the total unrounded, because rounding could leave a trace behind or move a trace too much.
    return total if share == 1 else round_to_grain(total * share)


def _split_amount(total: Decimal | None, share: Decimal) -> tuple[Decimal | None, Decimal | None]:
    """Return (amount that moves, amount that stays). Both are unknown if the total is, unless all or nothing moves."""
    if total is None:
        return (ZERO, None) if share == 0 else (None, ZERO) if share == 1 else (None, None)
    moving = _compute_share(total, share)
    return moving, total - moving


def _add_components(first: Component, second: Component) -> Component:
    amount = None if first.amount is None or second.amount is None else first.amount + second.amount
    return Component(first.dimension, amount, first.known and second.known, first.kind)


def _subtract_amounts(total: Decimal | None, part: Decimal | None) -> Decimal | None:
    return None if total is None or part is None else total - part


def _drop_empty_shares(shares: Mapping[str, Decimal]) -> dict[str, Decimal]:
    return {name: share for name, share in shares.items() if share > 0}


def _parse_decimal(text: Any) -> Decimal | None:
    return None if text in (None, "") else Decimal(text)


def _format_decimal(number: Decimal | None) -> str:
    """Return plain digits without trailing zeros, or an empty text for unknown."""
    if number is None:
        return ""
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
