"""L19 and L21: properties of a material that an action cannot change."""

from decimal import Decimal

from simulation.checker.findings import Decided, Findings, error_finding, warning_finding
from simulation.checker.reading import families, properties, units, words
from simulation.checker.reading.properties import Leaf, MaterialView
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.words import word_set

# Properties that say what a material is. Only actions that create a new material change them.
_IDENTITY = word_set(
    "genotype species strain serotype sequence organism lot isotope cas isolate donor genome plasmid vector construct promoter smile formula"
)
_IDENTITY_PAIRS = (frozenset({"cell", "type"}), frozenset({"cell", "line"}), frozenset({"molecular", "weight"}))
# Actions that may put a material into another vessel.
_CHANGES_VESSEL = word_set(
    "SeparateWells Storage AttemptDNAExtraction Lyophilize FreezeCells FlashFreeze Filter SolidPhaseExtraction Dialysis Combine"
)
# Actions whose output may be another material than the input that it continues.
_CHANGES_IDENTITY = word_set("AttemptDNAExtraction Combine Thermocycler qPCR Aliquot AcousticLiquidHandling")
# Properties that change with storage and time, or describe appearance; a simulator may drop them.
_TRANSIENT = word_set(
    "temperature temp co2 carbon humidity statu state phase appearance location storage condition time age note color colour "
    "dissolved gas turbidity volume vol position orientation homogeneity mixed mixing label description remaining history temperatur "
    "atmosphere bubble clarity confluence viability step date last prepared preparation usage light stage ready purpose use type form"
)
# Properties whose loss is an error, after an action that does not change the material.
_PERMANENT = _IDENTITY | word_set(
    "ph medium media passage purity grade buffer solvent matrix osmolality density container capacity concentration tag"
)
# These describe the whole plate, so one well may differ.
_OF_THE_PLATE = word_set("well volume position format layout container capacity name phase number count")
_SAME_AMOUNT = 50  # two amounts are the same if they differ by at most a 50th, that is 2 %
_MAX_GAIN = Decimal("1.01")  # factor of a volume: rounding


def check_identity(transition: Transition) -> Findings:
    """L19: yield a finding if a continued material changes its identity or its vessel, or loses a property."""
    for before, after in transition.list_kept_pairs():
        if not before.is_empty_vessel and not after.is_empty_vessel:
            yield Decided("L19")
            for leaf in before.leaves:
                if leaf.value_text:
                    yield from _check_property(transition, leaf, before, after)


def _check_property(transition: Transition, leaf: Leaf, before: MaterialView, after: MaterialView) -> Findings:
    key_words, name, old = set(leaf.words), after.name, leaf.value_text[:60]
    # The concentration of a plasmid is an amount, not an identity.
    is_identity = (bool(key_words & _IDENTITY) and leaf.parse_amount() is None) or any(
        pair <= key_words for pair in _IDENTITY_PAIRS
    )
    if is_identity and transition.action in _CHANGES_IDENTITY:
        return
    same_key = [other for other in after.leaves if set(other.words) == key_words]
    if not same_key:
        yield from _check_lost_property(transition, leaf, after, is_identity)
        return
    new, text = same_key[0].value_text[:60], ""
    is_resized = _has_other_volume(leaf, same_key[0]) and _stays_in_vessel(transition, before, after)
    if is_identity and not any(_is_same_name(leaf, other) for other in same_key):
        text = f"{leaf.key} of {name} was {old} and is now {new}"
    elif key_words == {"container"} and is_resized:
        text = f"{name} was in {old} and is now in {new}"
    elif "capacity" in key_words and is_resized:
        text = f"the container of {name} changed size"
    if text:
        yield error_finding("L19", name, old, new, text)


def _check_lost_property(transition: Transition, leaf: Leaf, after: MaterialView, is_identity: bool) -> Findings:
    """Yield an error or a warning if a property is missing after an action that does not change the material."""
    keeps_material = transition.family in (families.INERT, *families.MEASUREMENTS)
    if not keeps_material or transition.action in ("Wait", "CellCounter"):
        return
    key_words, value_words = set(leaf.words), set(words.tokenize(leaf.value_text))
    # The same value in another property or in the name.
    is_stated_elsewhere = value_words and (
        value_words <= after.all_words or any(_has_same_value(leaf, other) for other in after.leaves)
    )
    if is_stated_elsewhere or (key_words & _TRANSIENT and not is_identity):
        return
    # An ingredient's concentration, and the output has properties but no concentration.
    has_lost_all = len(after.leaves) > 1 and not after.concentrations
    is_content = has_lost_all and properties.find_component(leaf) not in (None, "", "cell")
    text = f"{leaf.key} of {after.name}, {leaf.value_text[:60]}, is missing after {transition.action}"
    if is_identity or key_words & _PERMANENT or is_content:
        yield error_finding("L19", after.name, leaf.value_text[:60], "nothing", text)
    else:
        # Simulators differ in which properties they repeat, so the loss of any other property is only a warning.
        yield warning_finding("L19", after.name, leaf.value_text[:60], "nothing", text, decidable=False)


def _stays_in_vessel(transition: Transition, before: MaterialView, after: MaterialView) -> bool:
    """Return whether the output is certainly the same material as its input, in the same vessel."""
    if transition.action in _CHANGES_VESSEL:
        return False
    is_replacement = bool(before.barcode) and after.raw.get("replaces") == before.barcode
    if is_replacement or transition.family in (families.INERT, families.READ):
        return True
    # A link by name is certain only if exactly one input and one output have the name.
    names = [words.core_words(view.name) for view in (*transition.inputs, *transition.outputs)]
    return names.count(words.core_words(after.name)) == 2


def _has_same_value(leaf: Leaf, other: Leaf) -> bool:
    """Return whether two leaves have the same value: amounts within 2 %, or all words of one in the other."""
    first, second = leaf.parse_amount(), other.parse_amount()
    if first and second and first.dimension == second.dimension:
        return abs(first.value - second.value) <= abs(first.value) / _SAME_AMOUNT
    leaf_words, other_words = set(words.tokenize(leaf.value_text)), set(words.tokenize(other.value_text))
    return leaf_words <= other_words or other_words <= leaf_words


def _is_same_name(leaf: Leaf, other: Leaf) -> bool:
    """Return whether one value contains the other: HEK293T and HEK293T cells, but not WT/nacre and nacre/nacre."""
    first, second = (" ".join(words.tokenize(side.value_text)) for side in (leaf, other))
    return first in second or second in first


def _has_other_volume(leaf: Leaf, other: Leaf) -> bool:
    """Return whether two containers have different sizes, such as "1.5 mL tube" and "50 mL tube"."""
    first, second = leaf.parse_amount("volume"), other.parse_amount("volume")
    return bool(first and second and abs(first.value - second.value) > abs(first.value) / _SAME_AMOUNT)


def check_wells(transition: Transition) -> Findings:
    """L21: yield an error if SeparateWells or ManifestMaterials changes a material or its time of modification."""
    if transition.action not in ("SeparateWells", "ManifestMaterials"):
        return
    plates = [view for view in transition.inputs if not view.is_empty_vessel]
    for output in transition.outputs:
        plate = transition.find_input(output)
        if plate is None and transition.action == "SeparateWells" and len(plates) == 1:
            plate = plates[0]
        if plate is not None:
            yield Decided("L21")
            yield from _check_own_well(plate, output)
            yield from _check_unchanged(transition, plate, output)


def _check_own_well(plate: MaterialView, output: MaterialView) -> Findings:
    """Yield an error unless a separated well has the values that the plate listed for this well or for each well."""
    leaves = [leaf for leaf in plate.leaves if set(leaf.words) == {"volume", "per", "well"}]
    volumes_per_well = [amount for leaf in leaves if (amount := leaf.parse_amount("volume"))]
    changes = []
    if len(volumes_per_well) == 1 and output.volume:
        expected = volumes_per_well[0]
        if abs(output.volume.value - expected.value) > expected.value / 20:
            changes.append(("volume", expected.text, output.volume.text))
    label = _find_well_label(output)
    for leaf in plate.leaves if label else ():
        # A plate may nest the properties of its wells: "B2": {"volume": "100 µL"}.
        if label in leaf.words[:-1]:
            new = _find_changed_value(leaf, leaf.words[leaf.words.index(label) + 1 :], output)
            changes += [(leaf.key, leaf.value_text, new)] if new else []
    for key, old, new in changes:
        text = f"{key[:60]} of {output.name} was {old[:60]} on the plate and is now {new[:60]}"
        yield error_finding("L21", output.name, old[:60], new[:60], text)


def _find_changed_value(leaf: Leaf, key_words: tuple[str, ...], output: MaterialView) -> str:
    """Return the value of an output's property with this key if the key is there but has no such value, else ""."""
    same_key = [other for other in output.leaves if other.words == key_words and other.value_text and leaf.value_text]
    is_same = any(_has_same_value(leaf, other) for other in same_key)
    return "" if is_same or not same_key else same_key[0].value_text


def _find_well_label(output: MaterialView) -> str:
    """Return the well in a material's name or in its property well or position, or "" if there are none or several."""
    leaves = (leaf for leaf in output.leaves if set(leaf.words) <= {"well", "position"})
    texts = {leaf.value_text.strip().lower() for leaf in leaves} | set(output.name_words)
    labels = {text for text in texts if words.is_well(text)}
    return labels.pop() if len(labels) == 1 else ""


def _check_unchanged(transition: Transition, plate: MaterialView, output: MaterialView) -> Findings:
    name, action = output.name, transition.action
    for field in ("environmental_condition", "material_type"):
        old, new = plate.raw.get(field), output.raw.get(field)
        if isinstance(old, str) and isinstance(new, str) and old != new:
            text = f"{action} changed {field} from {old[:40]} to {new[:40]}"
            yield error_finding("L21", name, old[:40], new[:40], text)
    for leaf in plate.leaves:
        if not set(leaf.words) & _OF_THE_PLATE and (new := _find_changed_value(leaf, leaf.words, output)):
            text = f"{action} changed {leaf.key} from {leaf.value_text[:60]} to {new[:60]}"
            yield error_finding("L21", name, leaf.value_text[:60], new[:60], text)
    had, has = plate.volume, output.volume
    if had and has and has.value > had.value * _MAX_GAIN:
        expected, got = (units.format_value(amount.value, "volume") for amount in (had, has))
        yield error_finding("L21", name, expected, got, f"{name} holds more than before")
    old, new = plate.raw.get("last_modified"), output.raw.get("last_modified")
    if old is not None and new is not None and type(old) is type(new) and old != new:
        text = f"the time of {name} changed, although {action} takes no time"
        yield error_finding("L21", name, str(old)[:40], str(new)[:40], text)
