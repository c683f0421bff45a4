"""Synthesis of DNA, RNA, PNA and peptides from reagents that the instrument contains."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import NamedTuple

from simulation.lab import quantities
from simulation.offline.action_context import ActionContext
from simulation.offline.ledger import ZERO, Component, Contents
from simulation.offline.vessels import LIQUID, RefusalError, Vessel, format_volume

_CONTAINER = {"container": "2 mL tube", "container_capacity": "2 mL"}
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
_AMIDE = Decimal("-0.98")  # g/mol, of a C-terminal amide compared with the acid


def synthesize_dna(context: ActionContext) -> None:
    _synthesize_chains(context, DNA)


def synthesize_rna(context: ActionContext) -> None:
    _synthesize_chains(context, RNA)


def synthesize_pna(context: ActionContext) -> None:
    _synthesize_chains(context, PNA)


def synthesize_peptide(context: ActionContext) -> None:
    _synthesize_chains(context, PEPTIDE)


def compute_molecular_mass(chain: Chain, sequence: str, amide: bool = False) -> Decimal | None:
    """Return the mass of the unmodified chain in g/mol, or None if a letter stands for several residues."""
    if not set(sequence) <= set(chain.masses):
        return None
    residues = sum((Decimal(chain.masses[letter]) for letter in sequence), ZERO)
    return residues + Decimal(chain.ends) + (_AMIDE if amide else ZERO)


def _synthesize_chains(context: ActionContext, chain: Chain) -> None:
    """Create one vessel per sequence. The amount is known only if `delivered_amount` is given."""
    amount = _get_delivered_amount(context)
    sequences = [part.strip() for part in context.values["sequences"].split(";")]
    for number, sequence in enumerate(sequences, start=1):
        name = context.format_label(number, len(sequences), f"{chain.name} {number}, {len(sequence)} {chain.residue}")
        part = Component("amount", amount, known=amount is not None)
        contents = Contents({f"{chain.name} {sequence}": part}, {}, context.values["dissolve_volume"] or ZERO)
        vessel = Vessel(context.reserve_name(name), _build_properties(context, chain, sequence), contents, "solid")
        if contents.volume:
            vessel.phase = LIQUID
            vessel.properties["solvent"] = context.values["dissolve_in"]
        context.new_vessels.append(vessel)
    volume = (
        f" in {format_volume(context.get_number('dissolve_volume'))}" if context.values["dissolve_volume"] else ", dry"
    )
    context.reasoning = (
        f"The sequence as ordered{volume}; its mass by the sum of its residues, its amount only if measured out."
    )


def _get_delivered_amount(context: ActionContext) -> Decimal | None:
    amount: Decimal | None = context.values["delivered_amount"]
    scale_setting = context.values["scale"]
    scale = (
        quantities.parse_quantity(scale_setting, "amount").value
        if isinstance(scale_setting, str)
        else Decimal(scale_setting)
    )
    if amount is not None and amount > scale:
        needs, available = quantities.format_quantity(amount, "amount"), quantities.format_quantity(scale, "amount")
        raise RefusalError(f"short of amount: needs {needs} of each, a scale of {available} gives no more than that")
    return amount


def _build_properties(context: ActionContext, chain: Chain, sequence: str) -> dict[str, str]:
    """Return the properties of a chain. The mass is left out for modified chains: modifications are not in the tables."""
    chosen = {properties: context.values[name] for name, properties in _MODIFICATIONS.items() if name in context.values}
    modifications = {
        properties: value for properties, value in chosen.items() if value not in _UNMODIFIED or properties == "C end"
    }
    properties = {**_CONTAINER, "sequence": sequence, "length": f"{len(sequence)} {chain.residue}"}
    if not set(modifications) - {"C end"}:
        mass = compute_molecular_mass(chain, sequence, amide=chosen.get("C end") == "amide")
        properties |= (
            {} if mass is None else {"molecular mass": quantities.format_quantity(mass / 1000, "molecular_mass", "Da")}
        )
    return {**properties, **modifications, "purification": context.values["purification"]}


HANDLERS: dict[str, Callable[[ActionContext], None]] = {
    "synthesize_dna": synthesize_dna,
    "synthesize_rna": synthesize_rna,
    "synthesize_pna": synthesize_pna,
    "synthesize_peptide": synthesize_peptide,
}
