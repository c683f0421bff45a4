"""The hidden account of what is inside a material, in exact decimal numbers, and of what was poured into it in one step.

Moving a share splits every component. What stays is computed as total minus moved, so that nothing is lost to rounding.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from simulation.lab import quantities
from simulation.lab.materials import CONTENT_KINDS, Material
from simulation.offline.phases import Phase

if TYPE_CHECKING:
    from simulation.offline.vessels import Vessel

ZERO, ONE = Decimal(0), Decimal(1)
# How the form of a component is called that heat, frost or time has destroyed. A label still counts it.
LOST_PREFIXES = ("attached dead ", "dead ", "inactive ", "degraded ")
NOT_DETERMINED = "not determined"  # the amount of a component that people know to be there
# Amounts are rounded to multiples of this. Division would otherwise give endless digits, whose sums are not exact.
_SMALLEST_AMOUNT = Decimal("1E-12")
_SMALLEST_DEVIATION = Decimal("1E-9")  # no instrument measures a billionth


class Component(NamedTuple):
    """A substance in a material.

    `amount` is the total in the base unit of its dimension, or None if unknown. `known` is whether people may see it.
    `kind` is the state of the substance: dissolved, cells or particles (both settle and stay on a filter), or attached
    to the vessel. `named` is whether people know that it is there although its amount has changed since they knew it.
    """

    dimension: str
    amount: Decimal | None
    known: bool
    kind: str = ""
    named: bool = False

    def change_amount(self, amount: Decimal | None) -> "Component":
        """Return the component with another amount that nobody has measured. Who knew of it still does.

        If nothing has changed, what people know still holds.
        """
        if amount is not None and amount == self.amount:
            return self
        return self._replace(amount=amount, known=False, named=self.known or self.named)


DISSOLVED, CELLS, PARTICLES, ATTACHED = CONTENT_KINDS
VOLUME = ""  # the key of the volume in `Contents.deviations`


def round_to_grain(amount: Decimal) -> Decimal:
    """Round an amount to a multiple of 1E-12, so that sums and differences of amounts stay exact."""
    return amount.quantize(_SMALLEST_AMOUNT)


def sum_known(amounts: Iterable[Decimal | None]) -> Decimal | None:
    """Return the sum of the amounts, or None if one is unknown."""
    total = ZERO
    for amount in amounts:
        if amount is None:
            return None
        total += amount
    return total


@dataclass(frozen=True)
class Contents:
    """The components of a material, its volume in µL and its bulk mass in µg (None if unknown), and its origins.

    `origins` is the share of each initial material that is in this one. Amounts and volumes are recorded ones: what
    was set on pipettes. `deviations` are how much more is really there, relative to them, by component; "" is the
    volume. Only instruments see them.
    """

    components: Mapping[str, Component] = field(default_factory=dict)
    origins: Mapping[str, Decimal] = field(default_factory=dict)
    volume: Decimal | None = ZERO
    mass: Decimal | None = None
    deviations: Mapping[str, Decimal] = field(default_factory=dict)

    @classmethod
    def from_ledger(cls, ledger: Mapping[str, Any]) -> Self:
        components = {
            name: Component(
                part["dimension"],
                _parse_decimal(part.get("amount")),
                part["known"],
                part.get("kind", ""),
                part.get("named", False),
            )
            for name, part in ledger.get("components", {}).items()
        }
        origins = {key: Decimal(share) for key, share in ledger.get("origins", {}).items()}
        deviations = {name: Decimal(share) for name, share in ledger.get("deviations", {}).items()}
        volume, mass = _parse_decimal(ledger.get("volume")), _parse_decimal(ledger.get("mass"))
        return cls(components, origins, volume, mass, deviations)

    def to_ledger(self, key: str = "") -> dict[str, Any]:
        ledger: dict[str, Any] = {"key": key} if key else {}
        ledger["components"] = {
            name: {"dimension": part.dimension, "amount": _format_decimal(part.amount), "known": part.known}
            | ({"kind": part.kind} if part.kind else {})
            | ({"named": True} if part.named else {})
            for name, part in self.components.items()
        }
        ledger["origins"] = {name: _format_decimal(share) for name, share in self.origins.items()}
        bulk = {"volume": self.volume, "mass": self.mass}
        ledger |= {name: _format_decimal(total) for name, total in bulk.items() if total is not None}
        deviations = {name: _format_decimal(share) for name, share in self.deviations.items()}
        return ledger | ({"deviations": deviations} if deviations else {})

    def as_delivered(self) -> "Contents":
        """Return what is really there, as instruments measure it."""
        if not self.deviations:
            return self

        def scale(name: str, amount: Decimal | None) -> Decimal | None:
            return None if amount is None else round_to_grain(amount * (1 + self.deviations.get(name, ZERO)))

        parts = {name: part._replace(amount=scale(name, part.amount)) for name, part in self.components.items()}
        return replace(self, components=parts, volume=scale(VOLUME, self.volume), deviations={})

    def scale_delivery(self, ratio: Decimal) -> "Contents":
        """Return the same recorded contents, of which `ratio` times as much was delivered."""
        names = (*self.components, VOLUME)
        deviations = {name: (1 + self.deviations.get(name, ZERO)) * ratio - 1 for name in names}
        return replace(self, deviations=_round_deviations(deviations))

    def with_deviation(self, name: str, deviation: Decimal) -> "Contents":
        """Return a copy in which a component, or the volume, deviates from the books by this share, and all else as before."""
        return replace(self, deviations=_round_deviations({**self.deviations, name: deviation}))

    def get_amount(self, name: str) -> Decimal | None:
        """Return the total amount of a component: zero if the component is absent, None if the amount is unknown."""
        return self.components[name].amount if name in self.components else ZERO

    def has_components(self, names: Iterable[str]) -> bool:
        """Return whether all of these components are present. An unknown amount counts as present."""
        return all(amount is None or amount > 0 for amount in map(self.get_amount, names))

    def sum_amounts(self, names: str | Sequence[str]) -> Decimal | None:
        """Return the amount of one component or the sum of several, or None if one is unknown."""
        return sum_known([self.get_amount(name) for name in ([names] if isinstance(names, str) else names)])

    def compute_concentration(self, name: str) -> Decimal | None:
        """Return a component's concentration in its base unit; None if amount or volume is unknown or volume is 0."""
        amount = self.get_amount(name)
        if amount is None or not self.volume:
            return None
        if name in self.components and self.components[name].dimension == "volume":
            # A liquid in a liquid is given in % v/v, not per millilitre.
            return amount / self.volume * 100
        # Concentrations are amounts per millilitre, but volumes are stored in µL.
        return amount / self.volume * 1000

    def split_share(
        self, share: Decimal, keep: Collection[str] = (), ratio: Decimal = ONE
    ) -> tuple["Contents", "Contents"]:
        """Return (moved, left) for a share of everything except the components in `keep`, which stay entirely.

        The recorded amounts move by the share; really `ratio` times as much moves, and so much less is left. Components that stay descend from the same initial materials as those that move. So if any stay, half of the
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
        volume, volume_left = _split_bulk(self.volume, share)
        mass, mass_left = _split_bulk(self.mass, share)
        # If no recorded volume is left, everything has moved; else at most half of what is left moves with it.
        is_partial = ZERO < share < ONE
        ratio = min(ratio, 1 + (1 - share) / share / 2) if is_partial else ONE
        staying_ratio = (1 - share * ratio) / (1 - share) if is_partial else ONE
        fixed = {name: deviation for name, deviation in self.deviations.items() if name in keep}
        contents_moved = Contents(moved, _drop_empty_shares(moved_origins), volume, mass, self.deviations)
        contents_left = Contents(remaining, _drop_empty_shares(left_origins), volume_left, mass_left, self.deviations)
        contents_left = contents_left.scale_delivery(staying_ratio)
        kept = {**{name: part for name, part in contents_left.deviations.items() if name not in keep}, **fixed}
        return contents_moved.scale_delivery(ratio), replace(contents_left, deviations=kept)

    def take_volume(
        self, volume: Decimal, keep: Collection[str] = (), ratio: Decimal = ONE
    ) -> tuple["Contents", "Contents"]:
        """Return (moved, left) for this recorded volume. It must be known and large enough."""
        assert self.volume is not None and ZERO < volume <= self.volume, "callers check what is there"
        moved, remaining = self.split_share(volume / self.volume, keep, ratio)
        # The volumes are set again: the share is a quotient, so volume times share may differ in the last digit.
        return replace(moved, volume=volume), replace(remaining, volume=self.volume - volume)

    def list_components_of_kind(self, *kinds: str) -> tuple[str, ...]:
        """Return the components of these kinds. Without a declared kind, a name with "cells" means cells, else dissolved."""
        inferred = {
            name: part.kind or (CELLS if "cells" in name else DISSOLVED) for name, part in self.components.items()
        }
        return tuple(name for name, kind in inferred.items() if kind in kinds)

    def compute_dry_mass(self) -> Decimal | None:
        """Return the sum of all components' masses in µg, or None if one is unknown or not measured by mass."""
        parts = self.components.values()
        return sum_known(part.amount if part.dimension == "mass" else None for part in parts)

    def __add__(self, other: "Contents") -> "Contents":
        components, origins = dict(self.components), dict(self.origins)
        for name, part in other.components.items():
            if (own := components.get(name)) is not None:
                amount = sum_known((own.amount, part.amount))
                known = own.known and part.known
                named = not known and (own.known or own.named or part.known or part.named)
                part = Component(own.dimension, amount, known, own.kind, named)
            components[name] = part
        for name, share in other.origins.items():
            origins[name] = origins.get(name, ZERO) + share
        volume, mass = sum_known((self.volume, other.volume)), sum_known((self.mass, other.mass))
        return Contents(components, origins, volume, mass, self._mix_deviations(other))

    def _mix_deviations(self, other: "Contents") -> dict[str, Decimal]:
        """Return the deviations of a mixture: the mean of both, weighted with the amounts."""
        mixed = {}
        for name in {**self.deviations, **other.deviations}:
            own, added = ((part.volume if name == VOLUME else part.get_amount(name)) for part in (self, other))
            if own is None or added is None or not own + added:
                continue
            both = own * self.deviations.get(name, ZERO) + added * other.deviations.get(name, ZERO)
            mixed[name] = both / (own + added)
        return _round_deviations(mixed)

    def with_component(self, name: str, part: Component) -> "Contents":
        """Return a copy with this much of one component; the component is removed if its amount is zero."""
        components = {**self.components, name: part}
        if part.amount is not None and part.amount <= 0:
            del components[name]
        return replace(self, components=components)

    def format_known_components(self, settled: Collection[str] = ()) -> dict[str, str]:
        """Return the concentrations and amounts that people may see, as properties of a material.

        Components that are `settled` or attached are given per vessel: they are not in the volume of the liquid.
        """
        properties = {}
        for name, part in _add_lost_forms(self.components).items():
            # Amounts that nobody measured stay in the ledger and must not be displayed.
            if part.named or (part.known and part.amount is None):
                properties[f"{name} amount"] = NOT_DETERMINED
            if not part.known or part.amount is None:
                continue
            whole = replace(self, components={name: part})
            concentration = None if name in settled else whole.compute_concentration(name)
            if concentration is None:
                properties[f"{name} amount"] = quantities.format_quantity(part.amount, part.dimension)
            else:
                text = quantities.format_concentration(name, concentration, part.dimension)
                properties[f"{name} concentration"] = text
        return properties


def find_original(name: str) -> str:
    """Return the component of which this is the dead, inactive or degraded form, or the name itself."""
    prefix = next((prefix for prefix in LOST_PREFIXES if name.startswith(prefix)), "")
    return name.removeprefix(prefix)


def _add_lost_forms(components: Mapping[str, Component]) -> dict[str, Component]:
    """Return the components with the known amount of their dead, inactive or degraded form added to their own."""
    whole: dict[str, Component] = {}
    for name, part in components.items():
        original = find_original(name) if part.known else name
        if (other := whole.get(original)) is None:
            whole[original] = part
        else:
            named = other.named or part.named
            whole[original] = other._replace(amount=sum_known((other.amount, part.amount)), named=named)
    return whole


def _compute_share(total: Decimal, share: Decimal) -> Decimal:
    # A share of one moves the total unrounded, because rounding could leave a trace behind or move a trace too much.
    return total if share == 1 else round_to_grain(total * share)


def _split_amount(total: Decimal | None, share: Decimal) -> tuple[Decimal | None, Decimal | None]:
    """Return (amount that moves, amount that stays). Both are unknown if the total is, unless all or nothing moves."""
    if total is None and share in (0, 1):
        return (ZERO, None) if share == 0 else (None, ZERO)
    return _split_bulk(total, share)


def _split_bulk(total: Decimal | None, share: Decimal) -> tuple[Decimal | None, Decimal | None]:
    """Return (volume or mass that moves, what stays). Both are unknown if the total is."""
    if total is None:
        return None, None
    moving = _compute_share(total, share)
    return moving, total - moving


def _round_deviations(deviations: Mapping[str, Decimal]) -> dict[str, Decimal]:
    rounded = {name: deviation.quantize(_SMALLEST_DEVIATION) for name, deviation in deviations.items()}
    return {name: deviation for name, deviation in rounded.items() if deviation}


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


def drop_component_properties(properties: Mapping[str, Any], contents: Contents) -> dict[str, Any]:
    """Return the properties without those of components, which are computed again from the contents."""
    names = {*contents.components, *map(find_original, contents.components)}
    computed = {f"{name} {what}" for name in names for what in ("concentration", "amount")}
    return {name: value for name, value in properties.items() if name not in computed}


def load_contents(material: Material) -> Contents:
    """Return the contents in the ledger, with a missing volume or mass taken from the properties."""
    contents = Contents.from_ledger(material.ledger)
    properties: Mapping[str, Any] = material.properties
    volume, mass = contents.volume, contents.mass
    if volume is None and properties.get("volume"):
        volume = quantities.parse_quantity(properties["volume"], "volume").value
    if volume is None and properties.get("phase") in (*Phase.SOLIDS, Phase.EMPTY):
        volume = ZERO
    if mass is None and properties.get("mass"):
        mass = quantities.parse_quantity(properties["mass"], "mass").value
    return replace(contents, volume=volume, mass=mass)


class Sources(dict[str, tuple[Decimal | None, str]]):
    """(amount, dimension) of each source material by barcode. The amount is None if unknown."""

    def add_from_vessel(self, source: "Vessel", contents: Contents) -> None:
        """Record that these contents came out of this vessel."""
        moved, dimension = _measure_contents(contents)
        if source.barcode:
            self.add_amount(source.barcode, moved, dimension)
            return
        # A vessel created in this step has no barcode yet, so its own sources are recorded instead.
        remaining, _ = _measure_contents(source.contents)
        for code, (amount, source_dimension) in source.sources.items():
            if amount is None or moved is None or remaining is None:
                self.add_amount(code, None, source_dimension)
            else:
                # The source's amounts have been scaled down to what stayed in it, unless it was emptied.
                self.add_amount(code, amount * moved / remaining if remaining else amount, source_dimension)

    def add_amount(self, code: str, amount: Decimal | None = None, dimension: str = "volume") -> None:
        noted, noted_dimension = self.get(code, (ZERO, dimension))
        # Volumes and masses cannot be added, so a source taken in both ways has an unknown amount.
        total = None if noted is None or amount is None or noted_dimension != dimension else noted + amount
        self[code] = (total, dimension)

    def scale_amounts(self, share: Decimal) -> None:
        """Multiply all amounts by the share that stays in the vessel."""
        # An emptied vessel keeps its amounts, because they are needed when its former contents are poured elsewhere.
        for code, (amount, dimension) in self.items() if share else ():
            self[code] = (None if amount is None else amount * share, dimension)

    def clear_liquids(self) -> None:
        """Set all volumes to zero, because the liquid was removed."""
        for code, (_, dimension) in self.items():
            if dimension == "volume":
                self[code] = (ZERO, dimension)

    def format_amounts(self) -> dict[str, str]:
        """Return the amounts as text for people, "" if unknown."""
        return {
            code: "" if amount is None else quantities.format_quantity(amount, dimension)
            for code, (amount, dimension) in self.items()
        }


def _measure_contents(contents: Contents) -> tuple[Decimal | None, str]:
    """Return (amount, dimension): the mass of a dry solid, else the volume."""
    if contents.volume == 0 and contents.mass is not None:
        return contents.mass, "mass"
    return contents.volume, "volume"
