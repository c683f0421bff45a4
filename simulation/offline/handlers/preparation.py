"""Preparing samples: adjusting a pH, digesting, grinding; preparing a reference electrode; and synthesising chains.

DNA, RNA, PNA and peptides are synthesised from reagents that the instrument contains.
"""

from collections.abc import Mapping
from decimal import Decimal
from functools import partial
from typing import NamedTuple

from simulation.lab import quantities
from simulation.offline.action_context import ActionContext, handles
from simulation.offline.declarations import apply_declared_changes
from simulation.offline.handlers.loading import parse_property_number
from simulation.offline.ledger import ZERO, Component, Contents
from simulation.offline.responses import compute_signal
from simulation.offline.vessels import LIQUID_PROPERTIES, Phase, RefusalError, Vessel, format_volume

_DIGESTION_VESSEL = {"container": "PTFE digestion vessel", "container_capacity": "55 mL"}
_MOST_STEPS = 1000  # additions of titrant; ends the loop when the declared curve never reaches the target
# Reference couple -> how the options for its filling solution begin.
_FILLING_SOLUTIONS = {
    "Ag/AgCl": ("1 M KCl", "3 M KCl", "saturated KCl"),
    "Ag/Ag+ (non-aqueous)": ("10 mM AgNO3",),
    "saturated calomel": ("saturated KCl",),
}
_SYNTHESIS_TUBE = {"container": "2 mL tube", "container_capacity": "2 mL"}
# Settings that leave the chain unmodified.
_UNMODIFIED = ("none", "phosphodiester", "hydroxyl", "free amine", "free acid", "amide")
_MODIFICATIONS = {
    "five_prime_modification": "5' end",
    "three_prime_modification": "3' end",
    "two_prime_modification": "2' position",
    "backbone": "backbone",
    "n_terminus": "N end",
    "c_terminus": "C end",
}
_AMIDE = Decimal("-0.98")  # g/mol, of a C-terminal amide compared with the acid


class Chain(NamedTuple):
    """A kind of polymer: the word for its residues, their average masses in g/mol, and the mass of both ends."""

    name: str
    residue: str
    masses: Mapping[str, str]
    ends: str


# A nucleotide residue has the mass of its monophosphate less water; a chain with two hydroxyl ends lacks one phosphate.
DNA = Chain("DNA", "nt", {"A": "313.21", "C": "289.18", "G": "329.21", "T": "304.20"}, "-61.96")
RNA = Chain("RNA", "nt", {"A": "329.21", "C": "305.18", "G": "345.21", "U": "306.17"}, "-61.96")
# The C end of PNA is an amide, that of a peptide an acid unless an amide is ordered (0.98 less).
PNA = Chain("PNA", "bases", {"A": "275.27", "C": "251.25", "G": "291.27", "T": "266.26"}, "17.03")
PEPTIDE = Chain(
    "peptide",
    "residues",
    {
        "A": "71.08", "C": "103.14", "D": "115.09", "E": "129.12", "F": "147.18", "G": "57.05", "H": "137.14",
        "I": "113.16", "K": "128.17", "L": "113.16", "M": "131.20", "N": "114.10", "P": "97.12", "Q": "128.13",
        "R": "156.19", "S": "87.08", "T": "101.10", "V": "99.13", "W": "186.21", "Y": "163.18",
    },
    "18.02",
)  # fmt: skip


@handles(
    "adjust_ph",
    "Titrant in steps against the declared pH; where none is declared, the stated volume, and no pH is told.",
)
def adjust_ph(context: ActionContext) -> None:
    """Add titrant until the declared pH reaches the target; if no pH is declared, add the given volume and record no pH."""
    titrant, target = context.get_selected_vessel("titrant"), context.get_number("target_ph")
    # Checked first, because a sample that is already at the target draws no titrant.
    titrant.require_liquid()
    for vessel in context.get_changeable_samples(titrant):
        vessel.require_liquid("titrated")
        ends = [parse_property_number(str(mixed.properties.get("pH", "")), "") for mixed in (vessel, titrant)]
        known = sorted(end for end in ends if end is not None)
        if len(known) == len(ends) and not known[0] <= target <= known[1]:
            first, second = (f"{mixed.name} at pH {mixed.properties['pH']}" for mixed in (vessel, titrant))
            raise RefusalError(f"wrong titrant: pH {target} does not lie between {first} and {second}")
        added = f"{format_volume(_add_titrant(context, vessel, titrant, target))} of titrant added"
        description, final_ph = f"{context.describe_run(vessel)}: {added}", _compute_ph(context, vessel)
        if final_ph is None:
            vessel.drop_properties("pH")
            context.record_observation(f"{description}, run completed, no pH on record")
        else:
            vessel.properties["pH"] = f"{final_ph:.2f}"  # the digits of the meter
            context.record_observation(f"{description}, pH", "quantitative", vessel.properties["pH"])


@handles("digest_by_microwave")
def digest_by_microwave(context: ActionContext) -> None:
    acid, oxidizer = context.find_selected_vessel("acid"), context.find_selected_vessel("oxidizer")
    for vessel in context.get_changeable_samples(acid, oxidizer):
        if vessel.phase in (Phase.FROZEN, Phase.ADHERENT):
            vessel.require_liquid("digested")
        if not vessel.get_volume() and not (acid or oxidizer):
            raise RefusalError(f"dry: {vessel.name} holds no liquid that takes up microwaves; add an acid")
        # The sample is moved to the digestion vessel, whose empty mass is unknown.
        vessel.properties |= _DIGESTION_VESSEL
        vessel.tare = None
        vessel.require_capacity(vessel.get_volume())
        for name, reagent in (("acid_volume", acid), ("oxidizer_volume", oxidizer)):
            if reagent:
                vessel.pour_in(reagent.draw_volume(context.get_number(name)), reagent)
        apply_declared_changes(context, vessel)
        context.expose(vessel, context.get_number("hold_time"), context.get_number("temperature"))
        vessel.phase = Phase.LIQUID if acid else vessel.phase
        vessel.drop_properties(*LIQUID_PROPERTIES)
        vessel.properties["digested"] = context.format_written_settings("temperature", "hold_time")
    context.reasoning = "Everything is in the digestion vessel; amounts stay but for reactions the experiment declares."


@handles("grind", "Nothing is lost in grinding; the grain is known only if all of it passed a sieve.")
def grind_solids(context: ActionContext) -> None:
    sieved = context.values["sieve"] is not None
    size = f"below {context.get_written_setting('sieve')}" if sieved else "not measured"
    for vessel in context.get_changeable_samples():
        if vessel.phase not in Phase.SOLIDS or vessel.phase == Phase.PELLET or vessel.contents.volume:
            raise RefusalError(f"wrong phase: {vessel.name} is {vessel.phase}; only dry solids and tissue are ground")
        vessel.phase = "powder"
        vessel.properties["particle size"] = size


@handles("prepare_electrode", type=_FILLING_SOLUTIONS)
def prepare_electrode(context: ActionContext) -> None:
    couple, filling = context.values["type"], context.values["filling_solution"]
    if not filling.startswith(_FILLING_SOLUTIONS[couple]):
        allowed = ", ".join(_FILLING_SOLUTIONS[couple])
        raise RefusalError(f"wrong filling solution: {couple} takes {allowed}, not {filling}")
    properties = {"electrode type": couple, "filling solution": filling, "frit": context.values["frit"]}
    name = context.reserve_name(context.printable_label or f"Reference electrode, {couple}")
    context.new_vessels.append(Vessel(name, properties, Contents(volume=None), Phase.CONSUMABLE))
    context.reasoning = "An electrode out of the lab's stock of parts; its potential is that of its couple."


def _add_titrant(context: ActionContext, vessel: Vessel, titrant: Vessel, target: Decimal) -> Decimal:
    """Add titrant in steps until the target is reached, or add the stated volume. Return the total volume added."""
    starting_ph = _compute_ph(context, vessel)
    if starting_ph is None or context.values["titrant_volume"] is not None:
        return _add_stated_volume(context, vessel, titrant)
    used, step, tolerance = ZERO, context.get_number("increment"), context.get_number("tolerance")
    limit = context.values["max_titrant_volume"] or vessel.get_capacity() - vessel.get_volume()
    while (current_ph := _compute_ph(context, vessel)) is not None and abs(current_ph - target) > tolerance:
        # A change of sign means that the target is between two steps; adding more would only move away from it.
        if (current_ph - target) * (starting_ph - target) < 0:
            crossing = f"{format_volume(step)} takes {vessel.name} from one side of pH {target} to pH {current_ph:.2f}"
            raise RefusalError(f"overshot: {crossing}; take less at a time")
        if used + step > limit or used + step > _MOST_STEPS * step:
            reached = f"{format_volume(used)} brought {vessel.name} to pH {current_ph:.2f}"
            raise RefusalError(f"short of titrant: {reached}, not to {target}")
        vessel.pour_in(titrant.draw_volume(step), titrant)
        used += step
    return used


def _add_stated_volume(context: ActionContext, vessel: Vessel, titrant: Vessel) -> Decimal:
    limit = context.values["max_titrant_volume"]
    stated: Decimal | None = context.values["titrant_volume"] or limit
    if stated is None:
        raise RefusalError(f"critically unclear: how much of {titrant.name} is added to {vessel.name}")
    if limit is not None and stated > limit:
        asked, most = format_volume(stated), format_volume(limit)
        raise RefusalError(f"two volumes: {asked} of titrant is more than the {most} allowed")
    vessel.pour_in(titrant.draw_volume(stated), titrant)
    return stated


def _compute_ph(context: ActionContext, vessel: Vessel) -> Decimal | None:
    """Return the pH that the experiment declares for this action, without noise, or None if it declares none."""
    return next((compute_signal(context, vessel.contents, entry) for entry in context.list_declared("responses")), None)


def compute_molecular_mass(chain: Chain, sequence: str, amide: bool = False) -> Decimal | None:
    """Return the mass of the unmodified chain in g/mol, or None if a letter stands for several residues."""
    if not set(sequence) <= set(chain.masses):
        return None
    residues = sum((Decimal(chain.masses[letter]) for letter in sequence), ZERO)
    return residues + Decimal(chain.ends) + (_AMIDE if amide else ZERO)


def _synthesize_chains(context: ActionContext, chain: Chain) -> None:
    """Create one vessel per sequence. The amount is known only if `delivered_amount` is given."""
    amount, volume = _get_delivered_amount(context), context.values["dissolve_volume"]
    sequences = [part.strip() for part in context.values["sequences"].split(";")]
    for number, sequence in enumerate(sequences, start=1):
        name = context.format_label(number, len(sequences), f"{chain.name} {number}, {len(sequence)} {chain.residue}")
        part = Component("amount", amount, known=amount is not None)
        contents = Contents({f"{chain.name} {sequence}": part}, {}, volume or ZERO)
        vessel = Vessel(context.reserve_name(name), _build_properties(context, chain, sequence), contents, "solid")
        if volume:
            vessel.phase = Phase.LIQUID
            vessel.properties["solvent"] = context.values["dissolve_in"]
        context.new_vessels.append(vessel)
    dissolved = f" in {format_volume(volume)}" if volume else ", dry"
    context.reasoning = (
        f"The sequence as ordered{dissolved}; its mass by the sum of its residues, its amount only if measured out."
    )


def _get_delivered_amount(context: ActionContext) -> Decimal | None:
    amount: Decimal | None = context.values["delivered_amount"]
    scale = context.values["scale"]
    scale = quantities.parse_quantity(scale, "amount").value if isinstance(scale, str) else Decimal(scale)
    if amount is not None and amount > scale:
        needs, available = quantities.format_quantity(amount, "amount"), quantities.format_quantity(scale, "amount")
        raise RefusalError(f"short of amount: needs {needs} of each, a scale of {available} gives no more than that")
    return amount


def _build_properties(context: ActionContext, chain: Chain, sequence: str) -> dict[str, str]:
    """Return the properties of a chain. The mass is left out for modified chains: modifications are not in the tables."""
    chosen = {shown: context.values[name] for name, shown in _MODIFICATIONS.items() if name in context.values}
    modifications = {shown: value for shown, value in chosen.items() if value not in _UNMODIFIED or shown == "C end"}
    properties = {**_SYNTHESIS_TUBE, "sequence": sequence, "length": f"{len(sequence)} {chain.residue}"}
    if not set(modifications) - {"C end"}:
        mass = compute_molecular_mass(chain, sequence, amide=chosen.get("C end") == "amide")
        if mass is not None:
            properties["molecular mass"] = quantities.format_quantity(mass / 1000, "molecular_mass", "Da")
    return {**properties, **modifications, "purification": context.values["purification"]}


for _chain in (DNA, RNA, PNA, PEPTIDE):
    handles(f"synthesize_{_chain.name.lower()}")(partial(_synthesize_chains, chain=_chain))
