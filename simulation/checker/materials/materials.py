"""L01, L08 and L09: which materials may be used and which may come back, regardless of amounts."""

import re

from simulation.checker.findings import Ran, Said, error, warning
from simulation.checker.reading import families, matching, terms, words
from simulation.checker.reading.reading import View
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.words import listed

# Barcodes of this laboratory. Those of other simulators have no pattern that could be searched for.
_CODE = re.compile(r"(?<![\w-])MAT-[A-Za-z0-9_-]+")
# "0.02 % (w/v)": a share by weight or volume is that of an ingredient.
_SHARE = re.compile(r"^[0-9.,]+\s?%\s?\(?(?:w|v|m)/?(?:v|w|m)\b", re.IGNORECASE)
_LIVING = listed("cell culture")
_CELL_LINES = listed("hek293t hek293 cho hela jurkat k562 a549 u2os mcf nih3t3 vero hepg2 thp ipsc")
# Actions that may add new materials to the bench.
_CREATES = ("PrepareReferenceElectrode", "ManifestMaterials", "SubmitMaterialsObservationsForReview", "Quit")
# A component that no input mentions may be a reaction product of these.
_REACTS = listed(
    "Combine Incubate CellCultureIncubate Thermocycler Microwave Autoclave Wait qPCR AdjustpH AttemptDNAExtraction"
)
# Components with many other names, so that not finding the word in the inputs proves nothing.
_VAGUE = listed(
    "cell dna rna protein salt ion na cl k ca mg total nucleic acid plasmid solid solute particle antigen product nucleotide"
)


def origins(transition: Transition) -> Said:
    """L01: all materials and components of the outcome come from an input, a parameter, or an action that creates."""
    yield from _used(transition)
    if not transition.success or transition.action in _CREATES:
        return
    input_words = words.resolved(transition.words)
    barcodes = {view.barcode for view in transition.inputs if view.barcode}
    for output in transition.outputs:
        yield Ran("L01")
        yield from _lineage(output, barcodes)
        if (
            transition.before(output) is None
            and transition.family != families.MAKE
            and output.phase != terms.GEL
            and "gel" not in output.words
        ):
            yield from _stranger(output, input_words)
        yield from _components(transition, output, input_words)
        yield from _additives(transition, output, input_words)


def consumed(transition: Transition) -> Said:
    """L08: a used-up material is not used again, and what this action uses up is not handed back for further use."""
    if not transition.success:
        return
    for view in transition.inputs:
        yield Ran("L08")
        if view.gone:
            yield error(
                "L08", view.name, "available", "used up", f"{view.name} had been used up before and is used again"
            )
    if transition.action in ("CellCounter", "Discard"):
        for before, after in transition.pairs():
            if not before.unlimited and not after.gone and not before.supply:
                yield error(
                    "L08",
                    after.name,
                    "used up",
                    "available",
                    f"{transition.action} uses up {after.name}, but it is still available afterwards",
                )
    elif transition.action == "Combine":
        for before, after in transition.pairs():
            is_unchanged = before.held is not None and before.held > 0 and after.held == before.held
            if is_unchanged and not before.unlimited and not after.gone:
                yield error(
                    "L08",
                    after.name,
                    "used up",
                    "available",
                    f"{after.name} went into the combined material, but its volume is unchanged",
                )


def supplies(transition: Transition) -> Said:
    """L09: an unlimited material is neither handed back nor changed, and none becomes unlimited."""
    for view in transition.inputs:
        if view.unlimited:
            yield Ran("L09")
    for output in transition.outputs:
        before = transition.before(output)
        if before is not None and before.unlimited:
            change = "used up" if output.gone else "handed back"
            yield error("L09", output.name, "left out", change, f"{output.name} is unlimited and was {change}")
        elif output.unlimited and transition.action != "ManifestMaterials":
            yield error("L09", output.name, "limited", "unlimited", f"{output.name} became unlimited")


def _used(transition: Transition) -> Said:
    """The barcodes named by an accepted action are on the bench."""
    barcodes = {view.barcode for view in transition.inputs if view.barcode}
    # A failed action may be one that named a wrong barcode; without barcodes nothing can be compared.
    if not transition.success or not barcodes:
        return
    texts = [*transition.materials, *(leaf.text for leaf in transition.parameters.leaves)]
    for code in sorted({code for text in texts for code in _CODE.findall(text)}):
        yield Ran("L01")
        if code not in barcodes:
            yield error(
                "L01",
                transition.action,
                "a material on the bench",
                "an unknown barcode",
                "the action was accepted although it names a barcode that is not among the materials",
            )


def _lineage(output: View, codes: set[str]) -> Said:
    origins = list(matching.parents(output) or ())
    replaced_barcode = output.raw.get("replaces")
    if isinstance(replaced_barcode, str) and replaced_barcode:
        origins.append(replaced_barcode)
    if any(code not in codes for code in origins):
        yield error(
            "L01",
            output.name,
            "a parent among the materials",
            "an unknown barcode",
            f"{output.name} names an origin that is not among the inputs",
        )


def _stranger(output: View, had: frozenset[str]) -> Said:
    """A new material has a name with at least one word of the inputs."""
    name_words = words.content(output.name)
    unknown_words = name_words - had
    if not unknown_words or name_words & had:
        return
    # Only a ready-made reagent is certain to come from outside; another name may be that of a product.
    reagents = sorted(
        word for word in unknown_words if words.REAGENTS.get(word) and not words.resolved(frozenset({word})) & had
    )
    if reagents:
        yield error(
            "L01",
            output.name,
            "made of the inputs",
            ", ".join(reagents),
            f"{output.name} is of unknown origin: no input has {reagents[0]}",
        )
    else:
        yield warning(
            "L01",
            output.name,
            "made of the inputs",
            "another name",
            f"the name of {output.name} has no word of any input",
            decidable=False,
        )


def _additives(transition: Transition, output: View, had: frozenset[str]) -> Said:
    """An action that adds nothing lists no new ingredient: a share of something, or cells of another line."""
    adds_nothing = transition.family in (families.INERT, families.HEAT, families.READ)
    if not adds_nothing or transition.before(output) is None or output.gone:
        return
    for leaf in output.leaves:
        key_words, value_words = frozenset(leaf.words), frozenset(words.cut(leaf.text))
        has_share = _SHARE.search(leaf.text) and transition.family != families.HEAT
        cell_lines = value_words & _CELL_LINES if key_words & _LIVING else frozenset()
        for new_words in (key_words - _VAGUE if has_share else frozenset(), cell_lines):
            # All words must be known, not one: "sodium azide" shares its first word with other salts.
            if any(not words.resolved(frozenset({word})) & had for word in new_words):
                name = " ".join(sorted(new_words))
                text = f"{output.name} contains {name}, which no input contained"
                yield error("L01", output.name, "contents of the inputs", name, text)


def _components(transition: Transition, output: View, had: frozenset[str]) -> Said:
    """A component with a concentration is mentioned by an input."""
    if transition.family in (families.MAKE, families.CONTROL) or (
        transition.family in families.MEASUREMENTS and output.gone
    ):
        return
    for component, amount in output.concentrations.items():
        component_words = set(component.split()) - _VAGUE
        if not component_words or words.resolved(frozenset(component_words)) & had or amount.value == 0:
            continue
        is_known_reagent = component_words & set(words.REAGENTS)
        text = f"{output.name} contains {component}, which no input contained"
        if is_known_reagent or (
            transition.action not in _REACTS and transition.family in (families.INERT, families.SERIAL, families.ADD)
        ):
            yield error("L01", output.name, "contents of the inputs", component, text)
        else:
            yield warning("L01", output.name, "contents of the inputs", component, text, decidable=False)
