"""L19 and L21: which properties of a material an action has no power over."""

from simulation.checker.findings import Ran, Said, error, warning
from simulation.checker.reading import families, meaning, words
from simulation.checker.reading.leaves import Leaf
from simulation.checker.reading.reading import View
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.words import listed

# What a thing is: no action but those that rebuild it changes these.
_IDENTITY = listed(
    "genotype species strain serotype sequence organism lot isotope cas isolate donor genome plasmid vector construct promoter smile formula"
)


_IDENTITY_PAIRS = (frozenset({"cell", "type"}), frozenset({"cell", "line"}), frozenset({"molecular", "weight"}))


_REHOUSES = listed(
    "SeparateWells Storage AttemptDNAExtraction Lyophilize FreezeCells FlashFreeze Filter SolidPhaseExtraction Dialysis Combine"
)


_REBUILDS = listed("AttemptDNAExtraction Combine Thermocycler qPCR Transfer Aliquot AcousticLiquidHandling")


# Comes and goes with place and time, or says how something looks.
_PASSING = listed(
    "temperature temp co2 carbon humidity statu state phase appearance location storage condition time age note color colour "
    "dissolved gas turbidity volume vol position orientation homogeneity mixed mixing label description remaining history temperatur "
    "atmosphere bubble clarity confluence viability step date last prepared preparation usage light stage ready purpose use type form"
)


_KEPT = _IDENTITY | listed(
    "ph medium media passage purity grade buffer solvent matrix osmolality density container capacity concentration tag"
)


def inheritance(transition: Transition) -> Said:
    """L19: a material that goes on is still what it was."""
    if not transition.success:
        return
    for before, after in transition.pairs():
        if before.unlimited or after.gone or before.supply or after.supply:
            continue
        yield Ran("L19")
        for leaf in before.leaves:
            yield from _kept(transition, leaf, after)


def _kept(transition: Transition, leaf: Leaf, after: View) -> Said:
    said = set(leaf.words)
    # The concentration of a plasmid says how much, not what it is.
    amount = leaf.amount()
    identity = (amount is None and bool(said & _IDENTITY)) or any(pair <= said for pair in _IDENTITY_PAIRS)
    if not leaf.text or (identity and transition.action in _REBUILDS and transition.action != "Transfer"):
        return
    now = [other for other in after.leaves if set(other.words) == said]
    if now:
        if identity and not any(_is_one(leaf, other) for other in now):
            yield error(
                "L19",
                after.name,
                leaf.text[:60],
                now[0].text[:60],
                f"{leaf.key} of {after.name} was {leaf.text[:60]} and is {now[0].text[:60]}",
            )
        elif said == {"container"} and _other_size(leaf, now[0]) and _in_place(transition, after):
            yield error(
                "L19",
                after.name,
                leaf.text[:60],
                now[0].text[:60],
                f"{after.name} was in {leaf.text[:60]} and is in {now[0].text[:60]}",
            )
        elif "capacity" in said and _in_place(transition, after) and _differs(leaf, now[0]):
            yield error(
                "L19", after.name, leaf.text[:60], now[0].text[:60], f"the container of {after.name} changed its size"
            )
        return
    yield from _dropped(transition, leaf, after, identity)


def _dropped(transition: Transition, leaf: Leaf, after: View, identity: bool) -> Said:
    """Nothing is forgotten by an action that leaves a material as it is."""
    quiet = transition.family in (families.INERT, *families.MEASUREMENTS) and transition.action not in (
        "Wait",
        "CellCounter",
    )
    said = set(leaf.words)
    if not quiet or (said & _PASSING and not identity) or _told_elsewhere(leaf, after):
        return
    text = f"{leaf.key} of {after.name}, {leaf.text[:60]}, is gone after {transition.action}"
    if identity or said & _KEPT or _is_content(leaf, after):
        yield error("L19", after.name, leaf.text[:60], "nothing", text)
    else:
        yield warning("L19", after.name, leaf.text[:60], "nothing", text, decidable=False)


def _is_content(leaf: Leaf, after: View) -> bool:
    """A concentration of what it is made of, where everything else is written down again."""
    name = meaning.component(leaf)
    return bool(name) and name != "cell" and len(after.leaves) > 1 and not after.concentrations


def _told_elsewhere(leaf: Leaf, after: View) -> bool:
    """The same value stands in another property or in the name."""
    wanted = set(words.cut(leaf.text))
    return bool(wanted) and (wanted <= after.mentions or any(alike(leaf, other) for other in after.leaves))


def _in_place(transition: Transition, after: View) -> bool:
    """It stays in its vessel: an action that changes vessels is none of these, and it is surely the same material."""
    if transition.action in _REHOUSES:
        return False
    before = transition.before(after)
    quiet = transition.family in (families.INERT, families.READ)
    if before is None or quiet:
        return quiet
    handed_back = bool(before.barcode) and after.raw.get("replaces") == before.barcode
    return (
        handed_back
        or [words.core(view.name) for view in (*transition.inputs, *transition.outputs)].count(words.core(after.name))
        == 2
    )


def alike(one: Leaf, other: Leaf) -> bool:
    first, second = one.amount(), other.amount()
    if first and second and first.dimension == second.dimension:
        return abs(first.value - second.value) <= abs(first.value) / 50
    mine, theirs = set(words.cut(one.text)), set(words.cut(other.text))
    return mine <= theirs or theirs <= mine


def _is_one(one: Leaf, other: Leaf) -> bool:
    """The same thing by name, maybe told at greater length: HEK293T and HEK293T cells, but not WT/nacre and nacre/nacre."""
    first, second = (" ".join(words.cut(leaf.text)) for leaf in (one, other))
    return first in second or second in first


def _differs(one: Leaf, other: Leaf) -> bool:
    first, second = one.amount("volume"), other.amount("volume")
    return bool(first and second and abs(first.value - second.value) > abs(first.value) / 50)


def _other_size(one: Leaf, other: Leaf) -> bool:
    """Both name a size, and not the same one: "1.5 mL tube" and "50 mL tube"."""
    return _differs(one, other)
