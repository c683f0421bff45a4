"""L01, L08, L09 and L18: which materials may be used, which come back, and how many."""

import re
from decimal import Decimal

from simulation.checker.findings import Decided, Findings, error_finding, undecided_finding, warning_finding
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
            and output.phase != words.GEL
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
    origins = list(linking.parent_barcodes(output) or ())
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
        if word in words.REAGENTS and not words.add_reagents(frozenset({word})) & input_words
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
        is_known_reagent = component_words & words.REAGENTS
        text = f"{output.name} contains {component}, which no input contained"
        if is_known_reagent or (
            transition.action not in _REACTING_ACTIONS
            and transition.family in (families.INERT, families.SERIAL, families.ADD)
        ):
            yield error_finding("L01", output.name, "contents of the inputs", component, text)
        else:
            yield warning_finding("L01", output.name, "contents of the inputs", component, text, decidable=False)


# Words in the name of the parameter that states the number of aliquots or dilutions.
_ALIQUOTS = ("aliquot", "portion", "tube", "copie", "replicate")
_DILUTIONS = ("dilution", "step", "point", "level", "tube")


def check_output_count(transition: Transition) -> Findings:
    """L18: check that as many materials come back as the catalogue promises, and that no remainder is missing."""
    if not transition.is_success:
        return
    if transition.action == "Aliquot":
        yield from _check_new_count(transition, transition.parameters.find_count(*_ALIQUOTS), "aliquots")
    elif transition.family == families.SERIAL:
        yield from _check_new_count(transition, transition.parameters.find_count(*_DILUTIONS), "dilutions")
    elif transition.action in families.GELS:
        yield from _check_gel_count(transition)
    elif transition.family == families.COMBINE:
        yield from _check_pool_count(transition)
    elif transition.family in families.ONE_TO_ONE or transition.action in ("Aspirate", "Wash", "Dialysis"):
        yield from _check_one_per_sample(transition)
    if transition.family == families.MAKE:
        yield from _check_synthesis_count(transition)
    if transition.family in families.MEASUREMENTS:
        yield Decided("L18")
        if not transition.observations:
            yield error_finding(
                "L18",
                transition.action,
                "data for each sample",
                "no observation",
                f"{transition.action} recorded nothing",
            )
    for draw in flows.trace_liquids(transition).withdrawals:
        yield from _check_residue(draw)


def _check_new_count(transition: Transition, requested: int | None, things: str) -> Findings:
    new_outputs = [
        view
        for view in transition.usable_outputs
        if (before := transition.find_input(view)) is None or before.is_empty_vessel or before.liquid_volume == 0
    ]
    if requested is None:
        yield undecided_finding("L18", transition.action, f"the parameters do not state how many {things}")
        return
    if flows.trace_liquids(transition).untraced_reason:
        yield undecided_finding(
            "L18",
            transition.action,
            f"new and old materials cannot be distinguished: {flows.trace_liquids(transition).untraced_reason}",
        )
        return
    yield Decided("L18")
    # Some simulators describe all aliquots as one material with a property like "tubes: 5".
    one_for_all = len(new_outputs) == 1 and any(
        set(leaf.words) & {"well", "tube", "aliquot", "dilution"} for leaf in new_outputs[0].leaves
    )
    if len(new_outputs) != requested and not (one_for_all and requested > 1) and transition.outputs:
        yield error_finding(
            "L18",
            transition.action,
            f"{requested} {things}",
            str(len(new_outputs)),
            f"{requested} {things} were requested and {len(new_outputs)} came out",
        )


def _check_gel_count(transition: Transition) -> Findings:
    gels = [view for view in transition.outputs if view.phase == words.GEL or "gel" in view.name_words]
    gels = [view for view in gels if transition.find_input(view) is None]
    yield Decided("L18")
    if len(gels) != 1:
        yield error_finding(
            "L18", transition.action, "one gel", str(len(gels)), f"all samples run on one gel, but {len(gels)} came out"
        )


def _check_pool_count(transition: Transition) -> Findings:
    new_outputs = [view for view in transition.usable_outputs if transition.find_input(view) is None]
    continued = [
        after
        for before, after in transition.list_pairs()
        if not after.is_used_up and not before.is_unlimited and not before.is_empty_vessel
    ]
    yield Decided("L18")
    if len(new_outputs) > 1:
        yield error_finding(
            "L18",
            transition.action,
            "one combined material",
            str(len(new_outputs)),
            f"{len(new_outputs)} new materials came out of combining",
        )
    elif not transition.usable_outputs:
        yield error_finding("L18", transition.action, "one combined material", "none", "no combined material came out")
    elif not new_outputs and len(continued) > 1:
        yield undecided_finding("L18", transition.action, "it is not clear which material is the combined one")


def _check_synthesis_count(transition: Transition) -> Findings:
    """Yield an error unless one material comes out for each requested sequence."""
    sequence_lists = [
        v for k, v in transition.parameters.raw.items() if "sequence" in str(k).lower() and isinstance(v, list)
    ]
    if len(sequence_lists) != 1:
        return
    yield Decided("L18")
    if len(sequence_lists[0]) != len(transition.usable_outputs):
        text = (
            f"{len(sequence_lists[0])} sequences were requested and {len(transition.usable_outputs)} materials came out"
        )
        yield error_finding(
            "L18", transition.action, f"{len(sequence_lists[0])} materials", str(len(transition.usable_outputs)), text
        )


def _check_one_per_sample(transition: Transition) -> Findings:
    """Yield an error or a warning if fewer materials come out than samples went in.

    The samples are the limited inputs that no parameter names.
    """
    named_materials = list(transition.parameters.materials_by_key.values())
    samples = [
        v
        for v in transition.limited_inputs
        if not v.is_empty_vessel and not any(v is other for other in named_materials)
    ]
    if not samples:
        return
    yield Decided("L18")
    output_count = len([view for view in transition.outputs if not view.is_unlimited])
    # An instrument that uses up its sample may use all of a volume below 100 µL.
    may_be_used_up = (
        any(view.liquid_volume is not None and view.liquid_volume < 100 for view in samples)
        and transition.family == families.CONSUME
    )
    if output_count >= len(samples) or transition.action == "CellCounter":
        return
    text = f"{len(samples)} samples went in and {output_count} materials came out"
    if output_count == 0 and (transition.family in families.MEASUREMENTS or may_be_used_up) and transition.observations:
        yield warning_finding("L18", transition.action, f"{len(samples)} materials", "0", text)
    else:
        yield error_finding("L18", transition.action, f"{len(samples)} materials", str(output_count), text)


def _check_residue(draw: flows.Withdrawal) -> Findings:
    source = draw.source
    if source.is_unlimited or source.liquid_volume is None or draw.volume is None or not draw.is_stated:
        return
    yield Decided("L18")
    volume_left = source.liquid_volume - draw.volume
    # A simulator need not list a remainder below 5 % or 1 µL, or within the dead volume.
    least_visible = max(source.liquid_volume / 20, draw.volume / 20, Decimal(1)) + (
        source.dead_volume.value if source.dead_volume else 0
    )
    if volume_left > least_visible and (draw.remainder is None or draw.remainder.is_used_up):
        outcome = "no residue" if draw.remainder is None else "used up"
        volume_text = units.format_value(volume_left, "volume")
        yield error_finding(
            "L18",
            source.name,
            f"{volume_text} left",
            outcome,
            f"{volume_text} of {source.name} is left, but it is not available for further use",
        )
