"""L19 and L21: properties of a material that an action cannot change."""

import re
from decimal import Decimal

from simulation.checker.findings import Decided, Findings, error_finding, require, warning_finding
from simulation.checker.reading import properties, units, words
from simulation.checker.reading.leaves import Leaf
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import word_set

# Properties that say what a material is. Only actions that create a new material change them.
_IDENTITY = word_set(
    "genotype species strain serotype sequence organism lot isotope cas isolate donor genome plasmid vector construct promoter smile formula"
)
_IDENTITY_PAIRS = (frozenset({"cell", "type"}), frozenset({"cell", "line"}), frozenset({"molecular", "weight"}))
# Actions that may put a material into another vessel.
_CHANGES_VESSEL = word_set(
    "SeparateWells AttemptDNAExtraction Microwave Lyophilize FreezeCells FlashFreeze Filter SolidPhaseExtraction Dialysis Combine"
)
# Actions whose output may be another material than the input that it continues.
_CHANGES_IDENTITY = word_set("AttemptDNAExtraction Combine Thermocycler qPCR Aliquot AcousticLiquidHandling")
# Properties that change with storage and time, or describe appearance; a simulator may drop them.
TRANSIENT = word_set(
    "temperature temp co2 carbon humidity statu state phase appearance location storage condition time age note color colour "
    "dissolved gas turbidity volume vol position orientation homogeneity mixed mixing label description remaining history temperatur "
    "atmosphere bubble clarity confluence viability step date last prepared preparation usage light stage ready purpose use type form"
)
# Properties whose loss is an error, after an action that does not change the material.
_PERMANENT = _IDENTITY | word_set(
    "ph medium media passage purity grade solvent matrix osmolality container capacity concentration tag"
)
# These describe the whole plate, so one well may differ.
_OF_THE_PLATE = word_set("well volume position format layout container capacity name phase number count")
_STAYING = (words.INERT, words.HEAT, *words.MEASUREMENTS)
CELL_LINES = word_set("hek293t hek293 cho hela jurkat k562 a549 u2os nih3t3 vero hepg2 cos7 mcf7 caco2")
_VESSEL_KEYS = tuple({key} for key in ("vessel", "tube", "vial", "bottle", "flask", "labware"))
_SAME_AMOUNT = 50  # two amounts are the same if they differ by at most a 50th, that is 2 %
_MAX_GAIN = Decimal("1.01")  # factor of a volume: rounding


# Kinds of vessels; a vessel that is described by words of two kinds is of neither.
_VESSEL_KINDS = {
    "a tube": word_set("tube microtube conical falcon eppendorf cryotube microcentrifuge"), "a plate": word_set("plate microplate well"),
    "a flask": word_set("flask erlenmeyer t25 t75 t175"), "a bottle": word_set("bottle"), "a vial": word_set("vial"),
    "a dish": word_set("dish petri"), "a beaker": word_set("beaker"), "a cuvette": word_set("cuvette"), "a crucible": word_set("crucible"),
}  # fmt: skip
# The format of a plate, flask or dish: "24-well", "T75", "35 mm dish".
_FORMAT = re.compile(
    r"\b(1536|384|96|48|24|12|6)(?=[- ]?wells?\b)|\bT-?(25|75|150|175|225)\b|\b(35|60|90|100|150)(?= ?mm (?:petri )?dish)",
    re.IGNORECASE,
)
# "isolate RB-2", "fish 9": the number or code belongs to the individual, which no action changes.
_INDIVIDUAL = re.compile(
    r"\b(isolate|strain|fish|clone|colony|donor|patient|animal|mouse|larva|embryo|progeny|consortium|passenger)\s(?:no\.?\s|nr\.?\s|number\s|#)?"
    r"([A-Za-z]{0,4}-?[0-9]{1,4}[a-z]?)(?![\w%/.-])",
    re.IGNORECASE,
)


def check_identity(transition: Transition) -> Findings:
    """L19: yield a finding if a continued material changes its identity or its vessel, or loses a property."""
    yield from _check_new_individuals(transition)
    for before, after in transition.list_kept_pairs():
        if not before.is_empty_vessel and not after.is_empty_vessel:
            yield Decided("L19")
            yield from _check_vessel_kind(transition, before, after)
            yield from _check_individual(before, after)
            yield from _check_codes(transition, before, after)
            for leaf in before.leaves:
                if leaf.value_text:
                    yield from _check_property(transition, leaf, before, after)


def _check_new_individuals(transition: Transition) -> Findings:
    """Yield an error if a new material is of an individual that no input is of: an extract of fish 9 from fish 7 and 8."""
    if transition.family not in (words.TAKE, words.HEAT, words.INERT, *words.MEASUREMENTS):
        return
    samples = [view for view in transition.limited_inputs if not transition.parameters.has_named(view)]
    samples = [view for view in samples if not view.is_empty_vessel]
    known = {
        (kind.lower(), code.lower()) for text in transition.input_texts for kind, code in _INDIVIDUAL.findall(text)
    }
    kinds = [{kind.lower() for kind, _ in _INDIVIDUAL.findall(view.name)} for view in samples]
    for output in transition.usable_outputs if kinds else ():
        for kind, code in _INDIVIDUAL.findall(output.name):
            # Every sample must say which individual it is of, or the new one may be that of another sample.
            if transition.find_input(output) is None and all(kind.lower() in found for found in kinds):
                holds = (kind.lower(), code.lower()) in known
                got, text = f"{kind} {code}", f"{output.name} is of {kind} {code}, of which no input is"
                yield from require("L19", holds, output.name, f"{kind} of an input", got, text)


def _check_vessel_kind(transition: Transition, before: MaterialView, after: MaterialView) -> Findings:
    """Yield an error if a material is in another kind of vessel after an action that moves nothing."""
    stays = transition.family in (words.INERT, words.HEAT, words.TAKE, *words.MEASUREMENTS)
    if transition.action in _CHANGES_VESSEL or not stays:
        return
    kinds = []
    sizes = [set(_FORMAT.findall(view.container)) for view in (before, after)]
    if len(sizes[0]) == len(sizes[1]) == 1:
        text = f"{after.name} was in {before.container[:60]} and is now in {after.container[:60]}"
        yield from require("L19", sizes[0] == sizes[1], after.name, before.container[:40], after.container[:40], text)
    for view in (before, after):
        container_words = set(words.tokenize(view.container))
        kinds.append([kind for kind, names in _VESSEL_KINDS.items() if names & container_words])
    if len(kinds[0]) == len(kinds[1]) == 1:
        text = f"{after.name} was in {before.container[:60]} and is now in {after.container[:60]}"
        yield from require("L19", kinds[0] == kinds[1], after.name, kinds[0][0], kinds[1][0], text)


def _check_individual(before: MaterialView, after: MaterialView) -> Findings:
    """Yield an error if the name of a material has the number of another individual than before."""
    old, new = (
        {kind.lower(): code.lower() for kind, code in _INDIVIDUAL.findall(view.name)} for view in (before, after)
    )
    for kind in old.keys() & new.keys():
        text = f"{after.name} was {kind} {old[kind]} before"
        yield from require(
            "L19", old[kind] == new[kind], after.name, f"{kind} {old[kind]}", f"{kind} {new[kind]}", text
        )


# A code in a name: "RB-2", "AAV9", "B2", "pEGFP-C1". Counters of time and passages change and are left out.
_CODE = re.compile(r"(?<![A-Za-z0-9.])([A-Za-z]{1,8}-?[0-9]{1,4}[A-Za-z]?)(?![A-Za-z0-9.%])")
COUNTER = re.compile(
    r"^(?:div|d|day|p|t|h|hpf|dpf|dpi|dil|std|s|x|no|step|run|rep|cycle|n|v|pass|wk|week|rt|lane|ph)-?[0-9]",
    re.IGNORECASE,
)


def _check_codes(transition: Transition, before: MaterialView, after: MaterialView) -> Findings:
    """Yield an error if a code in a material's name is replaced by another code of the same form that no input has."""
    if transition.family not in (words.INERT, words.HEAT, *words.MEASUREMENTS):
        return
    all_before = " ".join(
        [*transition.input_texts, *(leaf.value_text for leaf in transition.parameters.leaves)]
    ).lower()
    all_after = " ".join(view.name for view in transition.outputs).lower()
    old, new = (
        [code.lower() for code in _CODE.findall(view.name.replace("_", " ")) if not COUNTER.match(code)]
        for view in (before, after)
    )
    lost = [code for code in old if code not in all_after.replace("_", " ")]
    for code in (code for code in new if code not in all_before.replace("_", " ")):
        shape = re.sub("[0-9]+", "0", code)
        replaced = [other for other in lost if re.sub("[0-9]+", "0", other) == shape]
        if len(replaced) == 1:
            text = f"{after.name} had the code {replaced[0]} before"
            yield error_finding("L19", after.name, replaced[0], code, text)


def _check_property(transition: Transition, leaf: Leaf, before: MaterialView, after: MaterialView) -> Findings:
    key_words, name, old = leaf.word_set, after.name, leaf.value_text[:60]
    # The concentration of a plasmid is an amount, not an identity.
    is_identity = (bool(key_words & _IDENTITY) and leaf.parse_amount() is None) or any(
        pair <= key_words for pair in _IDENTITY_PAIRS
    )
    if is_identity and transition.action in _CHANGES_IDENTITY:
        return
    same_key = [other for other in after.leaves if other.word_set == key_words]
    if not same_key:
        yield from _check_lost_property(transition, leaf, after, is_identity)
        return
    new, text = same_key[0].value_text[:60], ""
    first, second = leaf.parse_amount("volume"), same_key[0].parse_amount("volume")
    # For example "1.5 mL tube" and "50 mL tube".
    has_other_size = first and second and abs(first.value - second.value) > abs(first.value) / _SAME_AMOUNT
    is_resized = has_other_size and _stays_in_vessel(transition, before, after)
    # One name may contain the other: HEK293T and HEK293T cells, but not WT/nacre and nacre/nacre.
    old_name, *names = (" ".join(words.tokenize(each.value_text)) for each in (leaf, *same_key))
    if is_identity and not any(old_name in other or other in old_name for other in names):
        text = f"{leaf.key} of {name} was {old} and is now {new}"
    elif is_resized and (key_words == {"container"} or (key_words in _VESSEL_KEYS and transition.family in _STAYING)):
        text = f"{name} was in {old} and is now in {new}"
    elif "capacity" in key_words and is_resized:
        text = f"the container of {name} changed size"
    if text:
        yield error_finding("L19", name, old, new, text)


_LAYERS = words.word_set("layer pellet supernatant sediment cake spun phase settled bead collected pelleted")


def _check_lost_property(transition: Transition, leaf: Leaf, after: MaterialView, is_identity: bool) -> Findings:
    """Yield an error or a warning if a property is missing after an action that does not change the material."""
    keeps_material = transition.family in (words.INERT, *words.MEASUREMENTS)
    if not keeps_material or transition.action in ("Wait", "CellCounter"):
        return
    key_words, value_words = leaf.word_set, set(words.tokenize(leaf.value_text))
    # The same value in another property or in the name.
    is_stated_elsewhere = value_words and (
        value_words <= after.all_words or any(_has_same_value(leaf, other) for other in after.leaves)
    )
    # The same component under another key.
    is_stated_elsewhere = is_stated_elsewhere or properties.find_component(leaf) in after.concentrations
    if is_stated_elsewhere or (key_words & TRANSIENT and not is_identity):
        return
    # An ingredient's concentration, and the output has properties but no concentration.
    has_lost_all = len(after.leaves) > 1 and not after.concentrations
    # A suspension that has separated has no concentration as a whole.
    has_separated = transition.action in ("Centrifuge", "ApplyMagnet") and after.all_words & _LAYERS
    is_content = has_lost_all and not has_separated and properties.find_component(leaf) not in (None, "", "cell")
    text = f"{leaf.key} of {after.name}, {leaf.value_text[:60]}, is missing after {transition.action}"
    # A record of what is left of a sample is often shorter than that of the sample.
    is_remainder = bool(words.REMAINDER & set(after.name_words))
    is_permanent = key_words & _PERMANENT and not (has_separated and "concentration" in key_words)
    if (is_identity or is_permanent or is_content) and not is_remainder:
        yield error_finding("L19", after.name, leaf.value_text[:60], "nothing", text)
    else:
        # Simulators differ in which properties they repeat, so the loss of any other property is only a warning.
        yield warning_finding("L19", after.name, leaf.value_text[:60], "nothing", text, decidable=False)


def _stays_in_vessel(transition: Transition, before: MaterialView, after: MaterialView) -> bool:
    """Return whether the output is certainly the same material as its input, in the same vessel."""
    if transition.action in _CHANGES_VESSEL:
        return False
    is_replacement = bool(before.barcode) and after.raw.get("replaces") == before.barcode
    if is_replacement or transition.family in (words.INERT, words.READ):
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
    leaves = [leaf for leaf in plate.leaves if leaf.word_set == {"volume", "per", "well"}]
    volumes_per_well = [amount for leaf in leaves if (amount := leaf.parse_amount("volume"))]
    changes = []
    if len(volumes_per_well) == 1 and output.volume:
        expected = volumes_per_well[0]
        if abs(output.volume.value - expected.value) > expected.value / 20:
            changes.append(("volume", expected.text, output.volume.text))
    for leaf in plate.leaves:
        if {"per", "well"} <= leaf.word_set and (
            new := _find_changed_value(leaf, leaf.words, output)
            or _find_changed_value(leaf, tuple(w for w in leaf.words if w not in ("per", "well", "each")), output)
        ):
            changes.append((leaf.key, leaf.value_text, new))
    # The well in the name, or in the property well or position.
    texts = {leaf.value_text.strip().lower() for leaf in output.leaves if leaf.word_set <= {"well", "position"}}
    labels = {text for text in texts | set(output.name_words) if words.is_well(text)}
    label = labels.pop() if len(labels) == 1 else ""
    changes += _find_changed_volume(plate, output, label)
    for leaf in plate.leaves if label else ():
        # A plate may nest the properties of its wells: "B2": {"volume": "100 µL"}.
        if label in leaf.words[:-1]:
            new = _find_changed_value(leaf, leaf.words[leaf.words.index(label) + 1 :], output)
            changes += [(leaf.key, leaf.value_text, new)] if new else []
        elif leaf.words[-1:] == (label,) and output.volume is not None:
            # Or describe each well in a text: "B2": "glutamate 1 µM, 200 µL".
            stated = units.find_amounts(leaf.value_text, "volume")
            if len(stated) == 1 and abs(stated[0].value - output.volume.value) > stated[0].value / 20:
                changes.append(("volume", stated[0].text, output.volume.text))
    # "B1-B4": "100:1, 1.0 mL each" describes the wells of which a new material has the name.
    own = _find_well_volume(output)
    for leaf in plate.leaves:
        stated = (
            units.find_amounts(leaf.value_text, "volume")
            if leaf.key.lower() in output.name.lower() and len(leaf.key) > 1
            else []
        )
        if (
            own is not None
            and len(stated) == 1
            and abs(stated[0].value - own.value) > stated[0].value / 20
            and words.is_well(leaf.key[:2])
        ):
            changes.append(("volume", stated[0].text, own.text))
    for key, old, new in changes:
        text = f"{key[:60]} of {output.name} was {old[:60]} on the plate and is now {new[:60]}"
        yield error_finding("L21", output.name, old[:60], new[:60], text)


def _find_well_volume(view: MaterialView) -> Amount | None:
    """Return the volume of each well that a material states, or None."""
    keys = (
        {"v", "well"},
        {"volume", "well"},
        {"volume", "per", "well"},
        {"v", "per", "well"},
        {"volume"},
        {"volume", "each"},
    )
    amounts = [amount for leaf in view.leaves if leaf.word_set in keys and (amount := leaf.parse_amount("volume"))]
    return amounts[0] if len(amounts) == 1 else None


_EACH_WELL = re.compile(r"([0-9.]{1,6}\s?[mµun]?[lL])\s?(?:/|per |each|in each|a )\s?(?:well|each|pocillo|puits)?\b")
_WELL_LABEL = re.compile(r"(?<![A-Za-z0-9])([A-Pa-p](?:0?[1-9]|1[0-9]|2[0-4]))(?![A-Za-z0-9])")


_CAPACITY_KEYS = words.CAPACITY | words.word_set("container vessel plate format type labware")


def _find_changed_volume(plate: MaterialView, output: MaterialView, label: str) -> list[tuple[str, str, str]]:
    """Return the change of a well's volume against what a text of the plate says of this well, or of each well."""
    if output.volume is None:
        return []
    # "96-well plate, 2.2 mL a well" under a key like container is what fits into a well.
    leaves = [leaf for leaf in plate.leaves if isinstance(leaf.value, str) and not leaf.word_set & _CAPACITY_KEYS]
    for text in (plate.name, *(f"{leaf.key} {leaf.value_text}" for leaf in leaves)):
        marks = list(_WELL_LABEL.finditer(text))
        ends = [mark.start() for mark in marks[1:]] + [len(text)]
        # "24-well plate, 2.2 mL per well to the brim" is a size.
        if re.search(
            r"\b(?:brim\w*|max\w*|cap\w*|holds?|up to|size|volume of a well|nominal|container|vessel|plate)\b",
            text,
            re.IGNORECASE,
        ):
            continue
        own = [text[m.end() : end] for m, end in zip(marks, ends, strict=False) if label and m[1].lower() == label]
        each = [" ".join(match.split()) for match in _EACH_WELL.findall(text)]
        stated = [amount for part in own for amount in units.find_amounts(part, "volume")]
        stated = stated or [amount for part in each if (amount := units.parse_amount(part, "", ("volume",)))]
        values = [amount.value for amount in stated]
        if values and all(abs(value - output.volume.value) > value / 20 for value in values):
            return [("volume", stated[0].text, output.volume.text)]
    return []


def _find_changed_value(leaf: Leaf, key_words: tuple[str, ...], output: MaterialView) -> str:
    """Return the value of an output's property with this key if the key is there but has no such value, else ""."""
    same_key = [other for other in output.leaves if other.words == key_words and other.value_text and leaf.value_text]
    is_same = any(_has_same_value(leaf, other) for other in same_key)
    return "" if is_same or not same_key else same_key[0].value_text


def _check_unchanged(transition: Transition, plate: MaterialView, output: MaterialView) -> Findings:
    name, action = output.name, transition.action
    for field in ("environmental_condition", "material_type"):
        old, new = plate.raw.get(field), output.raw.get(field)
        if isinstance(old, str) and isinstance(new, str) and old != new:
            text = f"{action} changed {field} from {old[:40]} to {new[:40]}"
            yield error_finding("L21", name, old[:40], new[:40], text)
    for leaf in plate.leaves:
        if not leaf.word_set & _OF_THE_PLATE and (new := _find_changed_value(leaf, leaf.words, output)):
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


def check_cell_lines(transition: Transition) -> Findings:
    """L19: yield an error if the name of a material has a cell line that no input mentions."""
    if transition.family in (words.MAKE, words.CONTROL, words.UNKNOWN):
        return
    had = CELL_LINES & transition.input_words
    known = {word[:6] for word in transition.input_words}
    for output in transition.outputs if had else ():
        lines = {line for line in CELL_LINES & set(output.name_words) if line[:6] not in known}
        shown = ", ".join(sorted(lines))
        text = f"{output.name} is of {shown}, which no input is"
        yield from require("L19", not lines, output.name, ", ".join(sorted(had)), shown, text)
