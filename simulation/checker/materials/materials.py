"""L01, L08 and L09: which materials may be used and which may come back, regardless of amounts."""

import re

from simulation.checker.findings import Decided, Findings, error_finding, warning_finding
from simulation.checker.reading import families, material_links, vocabulary, words
from simulation.checker.reading.material_view import MaterialView
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.words import word_set

# Barcodes of this laboratory. Those of other simulators have no pattern that could be searched for.
_CODE = re.compile(r"(?<![\w-])MAT-[A-Za-z0-9_-]+")
# "0.02 % (w/v)": a share by weight or volume means that the property is an ingredient.
_SHARE = re.compile(r"^[0-9.,]+\s?%\s?\(?(?:w|v|m)/?(?:v|w|m)\b", re.IGNORECASE)
_LIVING = word_set("cell culture")
_CELL_LINES = word_set("hek293t hek293 cho hela jurkat k562 a549 u2os mcf nih3t3 vero hepg2 thp ipsc")
# Actions that may add new materials to the bench.
_CREATING_ACTIONS = ("PrepareReferenceElectrode", "ManifestMaterials", "SubmitMaterialsObservationsForReview", "Quit")
# A component that no input mentions may be a reaction product of these actions.
_REACTING_ACTIONS = word_set(
    "Combine Incubate CellCultureIncubate Thermocycler Microwave Autoclave Wait qPCR AdjustpH AttemptDNAExtraction"
)
# Words for components with many other names; if the inputs lack such a word, that proves nothing.
_AMBIGUOUS_COMPONENTS = word_set(
    "cell dna rna protein salt ion na cl k ca mg total nucleic acid plasmid solid solute particle antigen product nucleotide"
)


def check_origins(transition: Transition) -> Findings:
    """L01: yield a finding if a material or component of the outcome comes from no input and no parameter."""
    yield from _check_barcodes(transition)
    if not transition.is_success or transition.action in _CREATING_ACTIONS:
        return
    input_words = words.add_reagents(transition.input_words)
    barcodes = {view.barcode for view in transition.inputs if view.barcode}
    for output in transition.outputs:
        yield Decided("L01")
        yield from _check_parents(output, barcodes)
        if (
            transition.find_input(output) is None
            and transition.family != families.MAKE
            and output.phase != vocabulary.GEL
            and "gel" not in output.name_words
        ):
            yield from _check_new_name(output, input_words)
        yield from _check_components(transition, output, input_words)
        yield from _check_additives(transition, output, input_words)


def check_used_up(transition: Transition) -> Findings:
    """L08: yield an error if a used-up material is used, or a material that the action uses up is still available."""
    if not transition.is_success:
        return
    for view in transition.inputs:
        yield Decided("L08")
        if view.is_used_up:
            yield error_finding(
                "L08", view.name, "available", "used up", f"{view.name} had been used up before and is used again"
            )
    if transition.action in ("CellCounter", "Discard"):
        for before, after in transition.list_pairs():
            if not before.is_unlimited and not after.is_used_up and not before.is_empty_vessel:
                yield error_finding(
                    "L08",
                    after.name,
                    "used up",
                    "available",
                    f"{transition.action} uses up {after.name}, but it is still available afterwards",
                )
    elif transition.action == "Combine":
        for before, after in transition.list_pairs():
            is_unchanged = (
                before.liquid_volume is not None
                and before.liquid_volume > 0
                and after.liquid_volume == before.liquid_volume
            )
            if is_unchanged and not before.is_unlimited and not after.is_used_up:
                yield error_finding(
                    "L08",
                    after.name,
                    "used up",
                    "available",
                    f"{after.name} went into the combined material, but its volume is unchanged",
                )


def check_unlimited_supplies(transition: Transition) -> Findings:
    """L09: yield an error if an unlimited material is handed back or used up, or if a limited one becomes unlimited."""
    for view in transition.inputs:
        if view.is_unlimited:
            yield Decided("L09")
    for output in transition.outputs:
        before = transition.find_input(output)
        if before is not None and before.is_unlimited:
            change = "used up" if output.is_used_up else "handed back"
            yield error_finding("L09", output.name, "left out", change, f"{output.name} is unlimited and was {change}")
        elif output.is_unlimited and transition.action != "ManifestMaterials":
            yield error_finding("L09", output.name, "limited", "unlimited", f"{output.name} became unlimited")


def _check_barcodes(transition: Transition) -> Findings:
    """Yield an error if an accepted action names a barcode that is not among the inputs."""
    barcodes = {view.barcode for view in transition.inputs if view.barcode}
    # A failed action may be one that named a wrong barcode; without barcodes nothing can be compared.
    if not transition.is_success or not barcodes:
        return
    texts = [*transition.materials, *(leaf.value_text for leaf in transition.parameters.leaves)]
    for code in sorted({code for text in texts for code in _CODE.findall(text)}):
        yield Decided("L01")
        if code not in barcodes:
            yield error_finding(
                "L01",
                transition.action,
                "a material on the bench",
                "an unknown barcode",
                "the action was accepted although it names a barcode that is not among the materials",
            )


def _check_parents(output: MaterialView, barcodes: set[str]) -> Findings:
    origins = list(material_links.parent_barcodes(output) or ())
    replaced_barcode = output.raw.get("replaces")
    if isinstance(replaced_barcode, str) and replaced_barcode:
        origins.append(replaced_barcode)
    if any(code not in barcodes for code in origins):
        yield error_finding(
            "L01",
            output.name,
            "a parent among the materials",
            "an unknown barcode",
            f"{output.name} names an origin that is not among the inputs",
        )


def _check_new_name(output: MaterialView, input_words: frozenset[str]) -> Findings:
    """Yield an error or a warning if the name of a new material has no word in common with the inputs."""
    name_words = words.content_words(output.name)
    unknown_words = name_words - input_words
    if not unknown_words or name_words & input_words:
        return
    # Only a ready-made reagent is certain to come from outside; another name may be that of a product.
    reagents = sorted(
        word
        for word in unknown_words
        if words.REAGENTS.get(word) and not words.add_reagents(frozenset({word})) & input_words
    )
    if reagents:
        yield error_finding(
            "L01",
            output.name,
            "made of the inputs",
            ", ".join(reagents),
            f"{output.name} is of unknown origin: no input has {reagents[0]}",
        )
    else:
        yield warning_finding(
            "L01",
            output.name,
            "made of the inputs",
            "another name",
            f"the name of {output.name} has no word of any input",
            decidable=False,
        )


def _check_additives(transition: Transition, output: MaterialView, input_words: frozenset[str]) -> Findings:
    """Yield an error if an output of an action that adds nothing has a new ingredient or cells of another line."""
    adds_nothing = transition.family in (families.INERT, families.HEAT, families.READ)
    if not adds_nothing or transition.find_input(output) is None or output.is_used_up:
        return
    for leaf in output.leaves:
        key_words, value_words = frozenset(leaf.words), frozenset(words.tokenize(leaf.value_text))
        has_share = _SHARE.search(leaf.value_text) and transition.family != families.HEAT
        cell_lines = value_words & _CELL_LINES if key_words & _LIVING else frozenset()
        for new_words in (key_words - _AMBIGUOUS_COMPONENTS if has_share else frozenset(), cell_lines):
            # Every word must be known: "sodium azide" shares its first word with other salts.
            if any(not words.add_reagents(frozenset({word})) & input_words for word in new_words):
                name = " ".join(sorted(new_words))
                text = f"{output.name} contains {name}, which no input contained"
                yield error_finding("L01", output.name, "contents of the inputs", name, text)


def _check_components(transition: Transition, output: MaterialView, input_words: frozenset[str]) -> Findings:
    """Yield an error or a warning if an output has the concentration of a component that no input mentions."""
    if transition.family in (families.MAKE, families.CONTROL) or (
        transition.family in families.MEASUREMENTS and output.is_used_up
    ):
        return
    for component, amount in output.concentrations.items():
        component_words = set(component.split()) - _AMBIGUOUS_COMPONENTS
        if not component_words or words.add_reagents(frozenset(component_words)) & input_words or amount.value == 0:
            continue
        is_known_reagent = component_words & set(words.REAGENTS)
        text = f"{output.name} contains {component}, which no input contained"
        if is_known_reagent or (
            transition.action not in _REACTING_ACTIONS
            and transition.family in (families.INERT, families.SERIAL, families.ADD)
        ):
            yield error_finding("L01", output.name, "contents of the inputs", component, text)
        else:
            yield warning_finding("L01", output.name, "contents of the inputs", component, text, decidable=False)
