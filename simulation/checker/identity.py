"""L19 and L21: properties of a material that an action cannot change."""

from decimal import Decimal

from simulation.checker.findings import Decided, Finding, Findings, error_finding, warning_finding
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
_CHANGES_IDENTITY = word_set("AttemptDNAExtraction Combine Thermocycler qPCR Transfer Aliquot AcousticLiquidHandling")
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


def check_identity(transition: Transition) -> Findings:
    """L19: yield a finding if a continued material changes its identity or its vessel, or loses a property."""
    if not transition.is_success:
        return
    for before, after in transition.list_pairs():
        if before.is_unlimited or after.is_used_up or before.is_empty_vessel or after.is_empty_vessel:
            continue
        yield Decided("L19")
        for leaf in before.leaves:
            yield from _check_property(transition, leaf, after)


def _check_property(transition: Transition, leaf: Leaf, after: MaterialView) -> Findings:
    key_words = set(leaf.words)
    # The concentration of a plasmid is an amount, not an identity.
    amount = leaf.parse_amount()
    is_identity = (amount is None and bool(key_words & _IDENTITY)) or any(pair <= key_words for pair in _IDENTITY_PAIRS)
    if not leaf.value_text or (
        is_identity and transition.action in _CHANGES_IDENTITY and transition.action != "Transfer"
    ):
        return
    same_key = [other for other in after.leaves if set(other.words) == key_words]
    if same_key:
        if is_identity and not any(_is_same_name(leaf, other) for other in same_key):
            yield error_finding(
                "L19",
                after.name,
                leaf.value_text[:60],
                same_key[0].value_text[:60],
                f"{leaf.key} of {after.name} was {leaf.value_text[:60]} and is now {same_key[0].value_text[:60]}",
            )
        elif key_words == {"container"} and _has_other_size(leaf, same_key[0]) and _stays_in_vessel(transition, after):
            yield error_finding(
                "L19",
                after.name,
                leaf.value_text[:60],
                same_key[0].value_text[:60],
                f"{after.name} was in {leaf.value_text[:60]} and is now in {same_key[0].value_text[:60]}",
            )
        elif "capacity" in key_words and _stays_in_vessel(transition, after) and _has_other_volume(leaf, same_key[0]):
            yield error_finding(
                "L19",
                after.name,
                leaf.value_text[:60],
                same_key[0].value_text[:60],
                f"the container of {after.name} changed size",
            )
        return
    yield from _check_lost_property(transition, leaf, after, is_identity)


def _check_lost_property(transition: Transition, leaf: Leaf, after: MaterialView, is_identity: bool) -> Findings:
    """Yield an error or a warning if a property is missing after an action that does not change the material."""
    keeps_material = transition.family in (families.INERT, *families.MEASUREMENTS) and transition.action not in (
        "Wait",
        "CellCounter",
    )
    key_words = set(leaf.words)
    if not keeps_material or (key_words & _TRANSIENT and not is_identity) or _is_stated_elsewhere(leaf, after):
        return
    text = f"{leaf.key} of {after.name}, {leaf.value_text[:60]}, is missing after {transition.action}"
    if is_identity or key_words & _PERMANENT or _is_content(leaf, after):
        yield error_finding("L19", after.name, leaf.value_text[:60], "nothing", text)
    else:
        # Simulators differ in which properties they repeat, so the loss of any other property is only a warning.
        yield warning_finding("L19", after.name, leaf.value_text[:60], "nothing", text, decidable=False)


def _is_content(leaf: Leaf, after: MaterialView) -> bool:
    """Return whether a leaf is an ingredient's concentration, and the output has properties but no concentration."""
    component = properties.find_component(leaf)
    return bool(component) and component != "cell" and len(after.leaves) > 1 and not after.concentrations


def _is_stated_elsewhere(leaf: Leaf, after: MaterialView) -> bool:
    """Return whether the output has the same value in another property or in its name."""
    value_words = set(words.tokenize(leaf.value_text))
    return bool(value_words) and (
        value_words <= after.all_words or any(has_same_value(leaf, other) for other in after.leaves)
    )


def _stays_in_vessel(transition: Transition, after: MaterialView) -> bool:
    """Return whether the output is certainly the same material as its input, in the same vessel."""
    if transition.action in _CHANGES_VESSEL:
        return False
    before = transition.find_input(after)
    keeps_vessel = transition.family in (families.INERT, families.READ)
    if before is None or keeps_vessel:
        return keeps_vessel
    # A link by name is certain only if exactly one input and one output have the name.
    is_replacement = bool(before.barcode) and after.raw.get("replaces") == before.barcode
    return (
        is_replacement
        or [words.core_words(view.name) for view in (*transition.inputs, *transition.outputs)].count(
            words.core_words(after.name)
        )
        == 2
    )


def has_same_value(leaf: Leaf, other: Leaf) -> bool:
    """Return whether two leaves have the same value: amounts within 2 %, or all words of one in the other."""
    first, second = leaf.parse_amount(), other.parse_amount()
    if first and second and first.dimension == second.dimension:
        return abs(first.value - second.value) <= abs(first.value) / 50
    leaf_words, other_words = set(words.tokenize(leaf.value_text)), set(words.tokenize(other.value_text))
    return leaf_words <= other_words or other_words <= leaf_words


def _is_same_name(leaf: Leaf, other: Leaf) -> bool:
    """Return whether one value contains the other: HEK293T and HEK293T cells, but not WT/nacre and nacre/nacre."""
    first, second = (" ".join(words.tokenize(side.value_text)) for side in (leaf, other))
    return first in second or second in first


def _has_other_volume(leaf: Leaf, other: Leaf) -> bool:
    first, second = leaf.parse_amount("volume"), other.parse_amount("volume")
    return bool(first and second and abs(first.value - second.value) > abs(first.value) / 50)


def _has_other_size(leaf: Leaf, other: Leaf) -> bool:
    """Return whether two containers have names with different sizes, such as "1.5 mL tube" and "50 mL tube"."""
    return _has_other_volume(leaf, other)


_VOLUME_PER_WELL = {"volume", "per", "well"}


def check_wells(transition: Transition) -> Findings:
    """L21: yield an error if SeparateWells or ManifestMaterials changes a material or its time of modification."""
    if not transition.is_success or transition.action not in ("SeparateWells", "ManifestMaterials"):
        return
    plates = [view for view in transition.inputs if not view.is_empty_vessel]
    for output in transition.outputs:
        plate = transition.find_input(output) or (plates[0] if len(plates) == 1 else None)
        if plate is None or (transition.action == "ManifestMaterials" and transition.find_input(output) is None):
            continue
        yield Decided("L21")
        yield from _check_own_well(plate, output)
        yield from _check_unchanged(transition, plate, output)


def _check_own_well(plate: MaterialView, output: MaterialView) -> Findings:
    """Yield an error unless a separated well has the values that the plate listed for this well or for each well."""
    volumes_per_well = [
        a for leaf in plate.leaves if set(leaf.words) == _VOLUME_PER_WELL and (a := leaf.parse_amount("volume"))
    ]
    if (
        len(volumes_per_well) == 1
        and output.volume
        and abs(output.volume.value - volumes_per_well[0].value) > volumes_per_well[0].value / 20
    ):
        yield _change_error(output, "volume", volumes_per_well[0].text, output.volume.text)
    label = _find_well_label(output)
    for leaf in plate.leaves if label else ():
        # A plate may nest the properties of its wells: "B2": {"volume": "100 µL"}.
        if label not in leaf.words[:-1]:
            continue
        property_words = leaf.words[leaf.words.index(label) + 1 :]
        same_key = [
            other for other in output.leaves if other.words == property_words and other.value_text and leaf.value_text
        ]
        if same_key and not any(has_same_value(leaf, other) for other in same_key):
            yield _change_error(output, leaf.key, leaf.value_text, same_key[0].value_text)


def _find_well_label(output: MaterialView) -> str:
    """Return the well in a material's name or in its property well or position, or "" if there are none or several."""
    property_values = {
        leaf.value_text.strip().lower() for leaf in output.leaves if set(leaf.words) <= {"well", "position"}
    }
    labels = {text for text in property_values | set(output.name_words) if words.is_well(text)}
    return labels.pop() if len(labels) == 1 else ""


def _change_error(output: MaterialView, key: str, value_before: str, value_after: str) -> Finding:
    text = f"{key[:60]} of {output.name} was {value_before[:60]} on the plate and is now {value_after[:60]}"
    return error_finding("L21", output.name, value_before[:60], value_after[:60], text)


def _check_unchanged(transition: Transition, plate: MaterialView, output: MaterialView) -> Findings:
    for field in ("environmental_condition", "material_type"):
        value_before, value_after = plate.raw.get(field), output.raw.get(field)
        if isinstance(value_before, str) and isinstance(value_after, str) and value_before != value_after:
            yield error_finding(
                "L21",
                output.name,
                value_before[:40],
                value_after[:40],
                f"{transition.action} changed {field} from {value_before[:40]} to {value_after[:40]}",
            )
    for leaf in plate.leaves:
        # These describe the whole plate, so one well may differ.
        if set(leaf.words) & {
            "well",
            "volume",
            "position",
            "format",
            "layout",
            "container",
            "capacity",
            "name",
            "phase",
            "number",
            "count",
        }:
            continue
        same_key = [
            other for other in output.leaves if other.words == leaf.words and other.value_text and leaf.value_text
        ]
        if same_key and not any(has_same_value(leaf, other) for other in same_key):
            yield error_finding(
                "L21",
                output.name,
                leaf.value_text[:60],
                same_key[0].value_text[:60],
                f"{transition.action} changed {leaf.key} from {leaf.value_text[:60]} to {same_key[0].value_text[:60]}",
            )
    had_volume, has_volume = plate.volume, output.volume
    if had_volume and has_volume and has_volume.value > had_volume.value * Decimal("1.01"):
        yield error_finding(
            "L21",
            output.name,
            units.format_value(had_volume.value, "volume"),
            units.format_value(has_volume.value, "volume"),
            f"{output.name} holds more than before",
        )
    for field in ("created_at", "last_modified"):
        value_before, value_after = plate.raw.get(field), output.raw.get(field)
        if (
            field == "last_modified"
            and value_before is not None
            and value_after is not None
            and type(value_before) is type(value_after)
            and value_before != value_after
        ):
            yield error_finding(
                "L21",
                output.name,
                str(value_before)[:40],
                str(value_after)[:40],
                f"the time of {output.name} changed, although {transition.action} takes no time",
            )
