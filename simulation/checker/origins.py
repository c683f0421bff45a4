"""L01, L08, L09 and L18: which materials may be used, which come back, and how many."""

import re
from decimal import Decimal

from simulation.checker.findings import Decided, Findings, error_finding, require, undecided_finding, warning_finding
from simulation.checker.reading import families, flows, linking, units, words
from simulation.checker.reading.properties import MaterialView
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
# Words in the name of the parameter that states the number of aliquots or dilutions.
_ALIQUOTS = ("aliquot", "portion", "tube", "copie", "replicate")
_DILUTIONS = ("dilution", "step", "point", "level", "tube")
_ONE_TO_ONE_ACTIONS = ("Aspirate", "Wash", "Dialysis")


def check_origins(transition: Transition) -> Findings:
    """L01: yield a finding if a material or component of the outcome comes from no input and no parameter."""
    barcodes = {view.barcode for view in transition.inputs if view.barcode}
    # A failed action may be one that named a wrong barcode; without barcodes nothing can be compared.
    texts = [*transition.materials, *(leaf.value_text for leaf in transition.parameters.leaves)] if barcodes else []
    for code in sorted({code for text in texts for code in _CODE.findall(text)}):
        message = "the action was accepted although it names a barcode that is not among the materials"
        expected, got = "a material on the bench", "an unknown barcode"
        yield from require("L01", code in barcodes, transition.action, expected, got, message)
    if transition.action in _CREATING_ACTIONS:
        return
    input_words = words.add_reagents(transition.input_words)
    for output in transition.outputs:
        replaced = output.raw.get("replaces")
        origins = {*(linking.parent_barcodes(output) or ()), replaced if isinstance(replaced, str) else ""} - {""}
        message = f"{output.name} names an origin that is not among the inputs"
        expected, got = "a parent among the materials", "an unknown barcode"
        yield from require("L01", origins <= barcodes, output.name, expected, got, message)
        is_gel = output.phase == words.GEL or "gel" in output.name_words
        if transition.find_input(output) is None and transition.family != families.MAKE and not is_gel:
            yield from _check_new_name(output, input_words)
        yield from _check_components(transition, output, input_words)
        yield from _check_additives(transition, output, input_words)


def _check_new_name(output: MaterialView, input_words: frozenset[str]) -> Findings:
    """Yield an error or a warning if the name of a new material has no word in common with the inputs."""
    name_words, expected = words.content_words(output.name), "made of the inputs"
    if not name_words or name_words & input_words:
        return
    # Only a ready-made reagent is certain to come from outside; another name may be that of a product.
    reagents = [word for word in sorted(name_words & words.REAGENTS) if _is_unknown(word, input_words)]
    if reagents:
        text = f"{output.name} is of unknown origin: no input has {reagents[0]}"
        yield error_finding("L01", output.name, expected, ", ".join(reagents), text)
    else:
        text = f"the name of {output.name} has no word of any input"
        yield warning_finding("L01", output.name, expected, "another name", text, decidable=False)


def _is_unknown(word: str, input_words: frozenset[str]) -> bool:
    """Return whether no input has the word or a reagent that it implies."""
    return not words.add_reagents(frozenset({word})) & input_words


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
            if any(_is_unknown(word, input_words) for word in new_words):
                name = " ".join(sorted(new_words))
                text = f"{output.name} contains {name}, which no input contained"
                yield error_finding("L01", output.name, "contents of the inputs", name, text)


def _check_components(transition: Transition, output: MaterialView, input_words: frozenset[str]) -> Findings:
    """Yield an error or a warning if an output has the concentration of a component that no input mentions."""
    is_measured = transition.family in families.MEASUREMENTS and output.is_used_up
    if is_measured or transition.family in (families.MAKE, families.CONTROL):
        return
    cannot_react = transition.action not in _REACTING_ACTIONS and transition.family in (
        families.INERT, families.SERIAL, families.ADD,
    )  # fmt: skip
    for component, amount in output.concentrations.items():
        component_words = frozenset(component.split()) - _AMBIGUOUS_COMPONENTS
        if not component_words or words.add_reagents(component_words) & input_words or amount.value == 0:
            continue
        expected, text = "contents of the inputs", f"{output.name} contains {component}, which no input contained"
        if component_words & words.REAGENTS or cannot_react:
            yield error_finding("L01", output.name, expected, component, text)
        else:
            yield warning_finding("L01", output.name, expected, component, text, decidable=False)


def check_used_up(transition: Transition) -> Findings:
    """L08: yield an error if a used-up material is used, or a material that the action uses up is still available."""
    for view in transition.inputs:
        text = f"{view.name} had been used up before and is used again"
        yield from require("L08", not view.is_used_up, view.name, "available", "used up", text)
    for before, after in transition.list_kept_pairs():
        text = ""
        if transition.action in ("CellCounter", "Discard") and not before.is_empty_vessel:
            text = f"{transition.action} uses up {after.name}, but it is still available afterwards"
        elif (
            transition.action == "Combine" and before.liquid_volume and after.liquid_volume == before.liquid_volume > 0
        ):
            text = f"{after.name} went into the combined material, but its volume is unchanged"
        if text:
            yield error_finding("L08", after.name, "used up", "available", text)


def check_unlimited_supplies(transition: Transition) -> Findings:
    """L09: yield an error if an unlimited material is handed back or used up, or if a limited one becomes unlimited."""
    if any(view.is_unlimited for view in transition.inputs):
        yield Decided("L09")
    for output in transition.outputs:
        before = transition.find_input(output)
        if before is not None and before.is_unlimited:
            change = "used up" if output.is_used_up else "handed back"
            yield error_finding("L09", output.name, "left out", change, f"{output.name} is unlimited and was {change}")
        elif output.is_unlimited and transition.action != "ManifestMaterials":
            yield error_finding("L09", output.name, "limited", "unlimited", f"{output.name} became unlimited")


def check_output_count(transition: Transition) -> Findings:
    """L18: check that as many materials come back as the catalogue promises, and that no remainder is missing."""
    action, family = transition.action, transition.family
    if action == "Aliquot":
        yield from _check_new_count(transition, transition.parameters.find_count(*_ALIQUOTS), "aliquots")
    elif family == families.SERIAL:
        yield from _check_new_count(transition, transition.parameters.find_count(*_DILUTIONS), "dilutions")
    elif action in families.GELS:
        gels = [view for view in transition.outputs if view.phase == words.GEL or "gel" in view.name_words]
        count = len([view for view in gels if transition.find_input(view) is None])
        text = f"all samples run on one gel, but {count} came out"
        yield from require("L18", count == 1, action, "one gel", str(count), text)
    elif family == families.COMBINE:
        yield from _check_pool_count(transition)
    elif family in families.ONE_TO_ONE or action in _ONE_TO_ONE_ACTIONS:
        yield from _check_one_per_sample(transition)
    if family == families.MAKE:
        yield from _check_synthesis_count(transition)
    if family in families.MEASUREMENTS:
        has_data = bool(transition.observations)
        text = f"{action} recorded nothing"
        yield from require("L18", has_data, action, "data for each sample", "no observation", text)
    for draw in flows.trace_liquids(transition).withdrawals:
        yield from _check_residue(draw)


def _check_new_count(transition: Transition, requested: int | None, things: str) -> Findings:
    new_outputs = list(flows.iter_new_outputs(transition))
    if requested is None:
        yield undecided_finding("L18", transition.action, f"the parameters do not state how many {things}")
        return
    if reason := flows.trace_liquids(transition).untraced_reason:
        text = f"new and old materials cannot be distinguished: {reason}"
        yield undecided_finding("L18", transition.action, text)
        return
    # Some simulators describe all aliquots as one material with a property like "tubes: 5".
    is_one_for_all = len(new_outputs) == 1 < requested and any(
        set(leaf.words) & {"well", "tube", "aliquot", "dilution"} for leaf in new_outputs[0].leaves
    )
    holds = len(new_outputs) == requested or is_one_for_all or not transition.outputs
    text = f"{requested} {things} were requested and {len(new_outputs)} came out"
    yield from require("L18", holds, transition.action, f"{requested} {things}", str(len(new_outputs)), text)


def _check_pool_count(transition: Transition) -> Findings:
    count = len([view for view in transition.usable_outputs if transition.find_input(view) is None])
    yield Decided("L18")
    if count > 1:
        text = f"{count} new materials came out of combining"
        yield error_finding("L18", transition.action, "one combined material", str(count), text)
    elif not transition.usable_outputs:
        yield error_finding("L18", transition.action, "one combined material", "none", "no combined material came out")
    elif not count and len([1 for before, _ in transition.list_kept_pairs() if not before.is_empty_vessel]) > 1:
        yield undecided_finding("L18", transition.action, "it is not clear which material is the combined one")


def _check_synthesis_count(transition: Transition) -> Findings:
    """Yield an error unless one material comes out for each requested sequence."""
    items = transition.parameters.raw.items()
    sequence_lists = [value for key, value in items if "sequence" in str(key).lower() and isinstance(value, list)]
    if len(sequence_lists) == 1:
        requested, count = len(sequence_lists[0]), len(transition.usable_outputs)
        text = f"{requested} sequences were requested and {count} materials came out"
        yield from require("L18", count == requested, transition.action, f"{requested} materials", str(count), text)


def _check_one_per_sample(transition: Transition) -> Findings:
    """Yield an error or a warning if fewer materials come out than samples went in.

    The samples are the limited inputs that no parameter names.
    """
    limited = [view for view in transition.limited_inputs if not view.is_empty_vessel]
    samples = [view for view in limited if not transition.parameters.has_named(view)]
    if not samples:
        return
    yield Decided("L18")
    count = len([view for view in transition.outputs if not view.is_unlimited])
    if count >= len(samples) or transition.action == "CellCounter":
        return
    text = f"{len(samples)} samples went in and {count} materials came out"
    is_measured = transition.family in families.MEASUREMENTS and transition.observations
    build_finding = warning_finding if count == 0 and is_measured else error_finding
    yield build_finding("L18", transition.action, f"{len(samples)} materials", str(count), text)


def _check_residue(draw: flows.Withdrawal) -> Findings:
    source, volume, remainder, is_stated = draw
    if source.is_unlimited or source.liquid_volume is None or volume is None or not is_stated:
        return
    volume_left = source.liquid_volume - volume
    dead_volume = source.dead_volume.value if source.dead_volume else 0
    # A simulator need not list a remainder below 5 % or 1 µL, or within the dead volume.
    least_visible = max(source.liquid_volume / 20, volume / 20, Decimal(1)) + dead_volume
    is_listed = remainder is not None and not remainder.is_used_up
    left = units.format_value(volume_left, "volume")
    text = f"{left} of {source.name} is left, but it is not available for further use"
    outcome = "no residue" if remainder is None else "used up"
    yield from require("L18", is_listed or volume_left <= least_visible, source.name, f"{left} left", outcome, text)
