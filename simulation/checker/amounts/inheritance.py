"""L19: properties of a material that an action cannot change."""

from simulation.checker.findings import Ran, Said, error, warning
from simulation.checker.reading import families, meaning, words
from simulation.checker.reading.leaves import Leaf
from simulation.checker.reading.reading import View
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.words import listed

# Properties that say what a material is. Only actions that create a new material change them.
_IDENTITY = listed(
    "genotype species strain serotype sequence organism lot isotope cas isolate donor genome plasmid vector construct promoter smile formula"
)
_IDENTITY_PAIRS = (frozenset({"cell", "type"}), frozenset({"cell", "line"}), frozenset({"molecular", "weight"}))
# Actions that may put a material into another vessel.
_REHOUSES = listed(
    "SeparateWells Storage AttemptDNAExtraction Lyophilize FreezeCells FlashFreeze Filter SolidPhaseExtraction Dialysis Combine"
)
# Actions whose output may be another material than the input that it continues.
_REBUILDS = listed("AttemptDNAExtraction Combine Thermocycler qPCR Transfer Aliquot AcousticLiquidHandling")
# Properties that change with storage and time, or describe appearance; a simulator may drop them.
_PASSING = listed(
    "temperature temp co2 carbon humidity statu state phase appearance location storage condition time age note color colour "
    "dissolved gas turbidity volume vol position orientation homogeneity mixed mixing label description remaining history temperatur "
    "atmosphere bubble clarity confluence viability step date last prepared preparation usage light stage ready purpose use type form"
)
# Properties whose loss is an error, after an action that does not change the material.
_KEPT = _IDENTITY | listed(
    "ph medium media passage purity grade buffer solvent matrix osmolality density container capacity concentration tag"
)


def inheritance(transition: Transition) -> Said:
    """L19: a material that is continued keeps its identity and its vessel."""
    if not transition.success:
        return
    for before, after in transition.pairs():
        if before.unlimited or after.gone or before.supply or after.supply:
            continue
        yield Ran("L19")
        for leaf in before.leaves:
            yield from _kept(transition, leaf, after)


def _kept(transition: Transition, leaf: Leaf, after: View) -> Said:
    key_words = set(leaf.words)
    # The concentration of a plasmid says how much, not what it is.
    amount = leaf.amount()
    is_identity = (amount is None and bool(key_words & _IDENTITY)) or any(pair <= key_words for pair in _IDENTITY_PAIRS)
    if not leaf.text or (is_identity and transition.action in _REBUILDS and transition.action != "Transfer"):
        return
    same_key = [other for other in after.leaves if set(other.words) == key_words]
    if same_key:
        if is_identity and not any(_is_one(leaf, other) for other in same_key):
            yield error(
                "L19",
                after.name,
                leaf.text[:60],
                same_key[0].text[:60],
                f"{leaf.key} of {after.name} was {leaf.text[:60]} and is now {same_key[0].text[:60]}",
            )
        elif key_words == {"container"} and _other_size(leaf, same_key[0]) and _in_place(transition, after):
            yield error(
                "L19",
                after.name,
                leaf.text[:60],
                same_key[0].text[:60],
                f"{after.name} was in {leaf.text[:60]} and is now in {same_key[0].text[:60]}",
            )
        elif "capacity" in key_words and _in_place(transition, after) and _differs(leaf, same_key[0]):
            yield error(
                "L19", after.name, leaf.text[:60], same_key[0].text[:60], f"the container of {after.name} changed size"
            )
        return
    yield from _dropped(transition, leaf, after, is_identity)


def _dropped(transition: Transition, leaf: Leaf, after: View, identity: bool) -> Said:
    """An action that does not change a material does not drop its properties."""
    keeps_material = transition.family in (families.INERT, *families.MEASUREMENTS) and transition.action not in (
        "Wait",
        "CellCounter",
    )
    key_words = set(leaf.words)
    if not keeps_material or (key_words & _PASSING and not identity) or _told_elsewhere(leaf, after):
        return
    text = f"{leaf.key} of {after.name}, {leaf.text[:60]}, is missing after {transition.action}"
    if identity or key_words & _KEPT or _is_content(leaf, after):
        yield error("L19", after.name, leaf.text[:60], "nothing", text)
    else:
        # Simulators differ in which properties they repeat, so other losses only warn.
        yield warning("L19", after.name, leaf.text[:60], "nothing", text, decidable=False)


def _is_content(leaf: Leaf, after: View) -> bool:
    """Return whether a leaf is the concentration of an ingredient, and the output lists other properties but no concentration."""
    component = meaning.component(leaf)
    return bool(component) and component != "cell" and len(after.leaves) > 1 and not after.concentrations


def _told_elsewhere(leaf: Leaf, after: View) -> bool:
    """Return whether the same value is in another property or in the name."""
    value_words = set(words.cut(leaf.text))
    return bool(value_words) and (value_words <= after.mentions or any(alike(leaf, other) for other in after.leaves))


def _in_place(transition: Transition, after: View) -> bool:
    """Return whether the material certainly stays in its vessel and is the same material."""
    if transition.action in _REHOUSES:
        return False
    before = transition.before(after)
    keeps_vessel = transition.family in (families.INERT, families.READ)
    if before is None or keeps_vessel:
        return keeps_vessel
    # A link by name is certain only if exactly one input and one output have the name.
    is_replacement = bool(before.barcode) and after.raw.get("replaces") == before.barcode
    return (
        is_replacement
        or [words.core(view.name) for view in (*transition.inputs, *transition.outputs)].count(words.core(after.name))
        == 2
    )


def alike(one: Leaf, other: Leaf) -> bool:
    """Return whether two leaves have the same value: within 2 % for amounts, or the words of one within the other."""
    first, second = one.amount(), other.amount()
    if first and second and first.dimension == second.dimension:
        return abs(first.value - second.value) <= abs(first.value) / 50
    leaf_words, other_words = set(words.cut(one.text)), set(words.cut(other.text))
    return leaf_words <= other_words or other_words <= leaf_words


def _is_one(one: Leaf, other: Leaf) -> bool:
    """Return whether one name contains the other: HEK293T and HEK293T cells, but not WT/nacre and nacre/nacre."""
    first, second = (" ".join(words.cut(side.text)) for side in (one, other))
    return first in second or second in first


def _differs(one: Leaf, other: Leaf) -> bool:
    first, second = one.amount("volume"), other.amount("volume")
    return bool(first and second and abs(first.value - second.value) > abs(first.value) / 50)


def _other_size(one: Leaf, other: Leaf) -> bool:
    """Return whether both name a size and the sizes differ: "1.5 mL tube" and "50 mL tube"."""
    return _differs(one, other)
