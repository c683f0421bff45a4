"""What heat, frost and time do to cells, viruses, enzymes and antibodies.

Losses follow the class of a component, which its name and kind decide, and hold in every experiment. What is lost stays in the
vessel as "dead", "inactive" or "degraded" component. A label does not show the loss: it still names the total.
"""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from simulation.lab import quantities
from simulation.offline.declared_numbers import parse_concentration
from simulation.offline.ledger import CELLS, LOST_PREFIXES, ONE, ZERO, Component, Contents, round_to_grain

_HOUR, _DAY = Decimal(3600), Decimal(86400)
_LEAST_ACTIVITY = Decimal("0.1")  # with a smaller share of activity left, nothing is detected
_DEAD_WHEN_FROZEN = Decimal("0.99")  # share of cells that ice kills where no cryoprotectant is present
_LOST_PER_FREEZING = Decimal("0.5")  # of the titre of an enveloped virus
_LEAST_CRYOPROTECTANT = {"volume": Decimal(5), "mass": Decimal(50_000)}  # % by volume, or µg/mL


_HalfLives = tuple[tuple[int, Decimal], ...]


class Dilution(NamedTuple):
    """The half-lives of a class where it is more dilute than `below` in µg/mL."""

    below: Decimal
    half_lives: _HalfLives


class DamageClass(NamedTuple):
    """A class of components: the pattern of their names, how the lost part is called, and half-lives.

    `half_lives` are (temperature in °C from which it holds, half-life in s), ascending; below the first nothing is lost.
    `working_dilution` has those of dilutions that are ready for use, which nobody can keep as long as a stock.
    """

    pattern: re.Pattern[str]
    lost: str
    half_lives: _HalfLives
    working_dilution: Dilution | None = None


# Vegetative cells: decimal reduction in 1 min at 60 °C, ten times faster every 7 °C (the z-value of most non-spore-formers).
_CELLS = DamageClass(
    re.compile("(?!)"), "dead", ((46, Decimal(1800)), (53, Decimal(180)), (60, Decimal(18)), (67, Decimal("1.8")))
)
# HIV-1-based vectors: half-lives of 10.4 h at 37 °C and 35 to 40 h from 4 to 22 °C (Higashikawa and Chang 2001).
_LENTIVIRUS = DamageClass(
    re.compile(r"lentivir|retrovir"),
    "inactive",
    ((1, 38 * _HOUR), (30, Decimal("10.4") * _HOUR), (50, Decimal(60))),
)
# In this order: "vector-F primer" is DNA although AAV stocks are called vectors too.
_CLASSES = (
    # Autoclaving breaks DNA into short fragments; 95 °C only separates its strands.
    DamageClass(re.compile(r"\b(dna|rna|plasmid|primer|amplicon|oligo|dntp)"), "degraded", ((115, Decimal(300)),)),
    _LENTIVIRUS,
    DamageClass(re.compile(r"\b(aav|virus|vector|phage)\b"), "inactive", ((56, Decimal(1800)), (72, Decimal(60)))),
    # Polymerase of Thermus aquaticus: 40 min at 95 °C.
    DamageClass(re.compile(r"\b(taq|pfu)\b"), "inactive", ((94, Decimal(2400)), (110, Decimal(60)))),
    # Antibodies unfold between 65 and 75 °C. Suppliers advise to keep a stock for months in the refrigerator but to use a working
    # dilution on the same day: it is adsorbed to the wall, and contains less of what preserves it.
    DamageClass(
        re.compile(r"\banti-|\bigg\b|antibod"), "inactive", ((56, _HOUR), (65, Decimal(600)), (75, Decimal(30))),
        Dilution(Decimal(5), ((1, 10 * _DAY), (15, 2 * _DAY), (30, _DAY / 2))),
    ),
    # Enzymes of mesophiles: days on the bench, a day at 37 °C, minutes above 60 °C. Dilute, they lose their activity within a day.
    DamageClass(
        re.compile(r"enzyme|trypsin|accutase|ligase|nuclease|proteinase|polymerase|peroxidase|lysozyme"), "inactive",
        ((15, 7 * _DAY), (30, _DAY), (50, Decimal(1200)), (60, Decimal(300)), (75, Decimal(20))),
        Dilution(Decimal(10), ((1, 2 * _DAY), (15, _DAY / 3), (30, _DAY / 12))),
    ),
)  # fmt: skip
_CRYOPROTECTANTS = ("dmso", "dimethyl sulfoxide", "glycerol")
_FREEZING_MEDIA = ("freezing medium", "cryo")  # words in the name of a medium


def find_damage_class(name: str, part: Component) -> DamageClass | None:
    """Return the class of a component, or None if heat, frost and time do not change it."""
    # Beads are not destroyed, whatever is bound to them.
    if name.startswith(LOST_PREFIXES) or "bead" in name:
        return None
    if part.kind == CELLS or (not part.kind and "cells" in name):
        # What is given as a mass is inside the cells, not the cells themselves.
        return _CELLS if part.dimension == "count" else None
    return _find_class_of_name(name)


@lru_cache(maxsize=4096)  # every step looks at every component of its materials
def _find_class_of_name(name: str) -> DamageClass | None:
    return next((kind for kind in _CLASSES if kind.pattern.search(name.lower())), None)


def age(
    contents: Contents, seconds: Decimal, temperature: Decimal, declared: Iterable[Mapping[str, Any]] = ()
) -> Contents:
    """Return the contents after this time at this temperature. `declared` are the experiment's own `decays`."""
    for name, part in list(contents.components.items()):
        half_lives = [_find_half_life(contents, name, temperature)]
        half_lives += [_find_declared_half_life(contents, name, temperature, entry) for entry in declared]
        known = [half_life for half_life in half_lives if half_life is not None]
        if known and seconds > 0:
            kind = find_damage_class(name, part)
            kept = Decimal(2) ** (-min(seconds / min(known), Decimal(300)))
            contents = lose_share(contents, name, ONE - kept, kind.lost if kind else "inactive")
    return contents


def _find_half_life(contents: Contents, name: str, temperature: Decimal) -> Decimal | None:
    """Return the shortest half-life of a component by its class, temperature and dilution; None if it keeps."""
    part = contents.components[name]
    if (kind := find_damage_class(name, part)) is None:
        return None
    tables = [kind.half_lives]
    concentration = contents.compute_concentration(name) if kind.working_dilution and part.dimension == "mass" else None
    if kind.working_dilution and concentration is not None and concentration < kind.working_dilution.below:
        tables.append(kind.working_dilution.half_lives)
    reached = [[half_life for above, half_life in table if temperature >= above] for table in tables]
    return min((table[-1] for table in reached if table), default=None)


def _find_declared_half_life(
    contents: Contents, name: str, temperature: Decimal, entry: Mapping[str, Any]
) -> Decimal | None:
    """Return the declared half-life if the component is as dilute and as warm as the entry says, else None."""
    concentration = contents.compute_concentration(name) if name in entry["components"] else None
    if concentration is None or concentration >= parse_concentration(entry["below"])[1]:
        return None
    if temperature < quantities.parse_quantity(entry["warmer_than"], "temperature").value:
        return None
    return quantities.parse_quantity(entry["half_life"], "duration").value


def lose_share(contents: Contents, name: str, share: Decimal, prefix: str) -> Contents:
    """Return the contents with this share of a component turned into its dead, inactive or degraded form."""
    part, lost_name = contents.components[name], f"{prefix} {name}"
    if part.amount is None:
        return contents
    before = contents.get_amount(lost_name) or ZERO
    lost = min(part.amount, round_to_grain(part.amount * share))
    remaining = part.amount - lost
    # A trace of activity is not detected; of cells and viruses, single ones count.
    traces = part.dimension != "count" and remaining < (remaining + lost + before) * _LEAST_ACTIVITY
    if traces or (part.dimension == "count" and remaining < 1):
        remaining, lost = ZERO, part.amount
    if lost == 0:
        return contents
    # Of a component whose amount people do not know, they do not know either that some is lost.
    contents = contents.with_component(lost_name, part._replace(amount=before + lost, named=part.known and part.named))
    return contents.with_component(name, part._replace(amount=remaining))


def freeze(contents: Contents, protected: bool) -> Contents:
    """Return the contents after freezing. Ice kills cells without a cryoprotectant, and breaks enveloped viruses."""
    for name, part in list(contents.components.items()):
        if (kind := find_damage_class(name, part)) is None:
            continue
        if kind is _CELLS and not protected:
            contents = lose_share(contents, name, _DEAD_WHEN_FROZEN, kind.lost)
        elif kind is _LENTIVIRUS:
            contents = lose_share(contents, name, _LOST_PER_FREEZING, kind.lost)
    return contents


def has_cryoprotectant(contents: Contents, medium: str) -> bool:
    """Return whether enough of a substance is dissolved that protects cells from ice, or the medium is one for freezing."""
    for name, part in contents.components.items():
        if name.lower() in _CRYOPROTECTANTS and part.dimension in _LEAST_CRYOPROTECTANT:
            concentration = contents.compute_concentration(name)
            if concentration is None or concentration >= _LEAST_CRYOPROTECTANT[part.dimension]:
                return True
    return any(word in medium.lower() for word in _FREEZING_MEDIA)
