"""L01, L08, L09: what may be there at all. These look at what is used and what comes back, not at amounts."""

import re

from simulation.checker.findings import Ran, Said, error, warning
from simulation.checker.reading import families, matching, terms, words
from simulation.checker.reading.reading import View
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.words import listed

_CODE = re.compile(r"(?<![\w-])MAT-[A-Za-z0-9_-]+")
_SHARE = re.compile(r"^[0-9.,]+\s?%\s?\(?(?:w|v|m)/?(?:v|w|m)\b", re.IGNORECASE)
_LIVING = listed("cell culture")
_CELL_LINES = listed("hek293t hek293 cho hela jurkat k562 a549 u2os mcf nih3t3 vero hepg2 thp ipsc")
_CREATES = ("PrepareReferenceElectrode", "ManifestMaterials", "SubmitMaterialsObservationsForReview", "Quit")
_REACTS = listed(
    "Combine Incubate CellCultureIncubate Thermocycler Microwave Autoclave Wait qPCR AdjustpH AttemptDNAExtraction"
)
# Words of a component that many different names stand for: not finding them means nothing.
_VAGUE = listed(
    "cell dna rna protein salt ion na cl k ca mg total nucleic acid plasmid solid solute particle antigen product nucleotide"
)


def origins(transition: Transition) -> Said:
    """L01: every material and component of the outcome comes from what went in, a parameter, or an action that creates."""
    yield from _used(transition)
    if not transition.success or transition.action in _CREATES:
        return
    had = words.resolved(transition.words)
    codes = {view.barcode for view in transition.inputs if view.barcode}
    for output in transition.outputs:
        yield Ran("L01")
        yield from _lineage(output, codes)
        if (
            transition.before(output) is None
            and transition.family != families.MAKE
            and output.phase != terms.GEL
            and "gel" not in output.words
        ):
            yield from _stranger(output, had)
        yield from _components(transition, output, had)
        yield from _additives(transition, output, had)


def consumed(transition: Transition) -> Said:
    """L08: nothing used up is used again, and what this action uses up is not handed back for further use."""
    if not transition.success:
        return
    for view in transition.inputs:
        yield Ran("L08")
        if view.gone:
            yield error("L08", view.name, "available", "used up", f"{view.name} was used up before and is used again")
    if transition.action in ("CellCounter", "Discard"):
        for before, after in transition.pairs():
            if not before.unlimited and not after.gone and not before.supply:
                yield error(
                    "L08",
                    after.name,
                    "used up",
                    "available",
                    f"{transition.action} uses up {after.name}, which is available afterwards",
                )
    elif transition.action == "Combine":
        for before, after in transition.pairs():
            whole = before.held is not None and before.held > 0 and after.held == before.held
            if whole and not before.unlimited and not after.gone:
                yield error(
                    "L08",
                    after.name,
                    "used up",
                    "available",
                    f"{after.name} went into the combined material and is there as before",
                )


def supplies(transition: Transition) -> Said:
    """L09: an unlimited material is neither handed back nor changed, and nothing becomes unlimited."""
    for view in transition.inputs:
        if view.unlimited:
            yield Ran("L09")
    for output in transition.outputs:
        before = transition.before(output)
        if before is not None and before.unlimited:
            what = "used up" if output.gone else "handed back"
            yield error("L09", output.name, "left out", what, f"{output.name} is unlimited and was {what}")
        elif output.unlimited and transition.action != "ManifestMaterials":
            yield error("L09", output.name, "limited", "unlimited", f"{output.name} became unlimited")


def _used(transition: Transition) -> Said:
    """Barcodes named by an accepted action are on the bench."""
    codes = {view.barcode for view in transition.inputs if view.barcode}
    if not transition.success or not codes:
        return
    written = [*transition.materials, *(leaf.text for leaf in transition.parameters.leaves)]
    for code in sorted({code for text in written for code in _CODE.findall(text)}):
        yield Ran("L01")
        if code not in codes:
            yield error(
                "L01",
                transition.action,
                "a material on the bench",
                "an unknown barcode",
                "the action names a barcode that is not among the materials, and was accepted",
            )


def _lineage(output: View, codes: set[str]) -> Said:
    claimed = list(matching.parents(output) or ())
    replaced = output.raw.get("replaces")
    if isinstance(replaced, str) and replaced:
        claimed.append(replaced)
    if any(code not in codes for code in claimed):
        yield error(
            "L01",
            output.name,
            "a parent among the materials",
            "an unknown barcode",
            f"{output.name} says it comes from something that did not go in",
        )


def _stranger(output: View, had: frozenset[str]) -> Said:
    """A material none of whose words stands anywhere in what went in."""
    said = words.content(output.name)
    unknown = said - had
    if not unknown or said & had:
        return
    brought = sorted(
        word for word in unknown if words.REAGENTS.get(word) and not words.resolved(frozenset({word})) & had
    )
    if brought:
        yield error(
            "L01",
            output.name,
            "made of what went in",
            ", ".join(brought),
            f"{output.name} comes from nowhere: no {brought[0]} went in",
        )
    else:
        yield warning(
            "L01",
            output.name,
            "made of what went in",
            "another name",
            f"{output.name} bears no name of what went in",
            decidable=False,
        )


def _additives(transition: Transition, output: View, had: frozenset[str]) -> Said:
    """What an action that adds nothing writes down anew: a share of something, or cells of another kind."""
    quiet = transition.family in (families.INERT, families.HEAT, families.READ)
    if not quiet or transition.before(output) is None or output.gone:
        return
    for leaf in output.leaves:
        words_of_key, said = frozenset(leaf.words), frozenset(words.cut(leaf.text))
        share = _SHARE.search(leaf.text) and transition.family != families.HEAT
        lines = said & _CELL_LINES if words_of_key & _LIVING else frozenset()
        for new in (words_of_key - _VAGUE if share else frozenset(), lines):
            # Salts share their first name: of "sodium azide" the second says what it is.
            if any(not words.resolved(frozenset({word})) & had for word in new):
                name = " ".join(sorted(new))
                text = f"{output.name} holds {name}, which was in nothing that went in"
                yield error("L01", output.name, "what went in", name, text)


def _components(transition: Transition, output: View, had: frozenset[str]) -> Said:
    """A component with a concentration that nothing that went in mentions."""
    if transition.family in (families.MAKE, families.CONTROL) or (
        transition.family in families.MEASUREMENTS and output.gone
    ):
        return
    for component, amount in output.concentrations.items():
        parts = set(component.split()) - _VAGUE
        if not parts or words.resolved(frozenset(parts)) & had or amount.value == 0:
            continue
        known = parts & set(words.REAGENTS)
        text = f"{output.name} holds {component}, which was in nothing that went in"
        if known or (
            transition.action not in _REACTS and transition.family in (families.INERT, families.SERIAL, families.ADD)
        ):
            yield error("L01", output.name, "what went in", component, text)
        else:
            yield warning("L01", output.name, "what went in", component, text, decidable=False)
