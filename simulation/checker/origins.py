"""L01: everything in the outcome comes from the inputs or from a parameter of the action."""

import re

from simulation.checker import chemistry
from simulation.checker.findings import Findings, error_finding, require, warning_finding
from simulation.checker.reading import linking, properties, words
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.units import Amount
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
    yield from _check_precipitates(transition)
    for output in transition.outputs:
        replaced = output.raw.get("replaces")
        origins = {*(linking.parent_barcodes(output) or ()), replaced if isinstance(replaced, str) else ""} - {""}
        message = f"{output.name} names an origin that is not among the inputs"
        expected, got = "a parent among the materials", "an unknown barcode"
        yield from require("L01", origins <= barcodes, output.name, expected, got, message)
        is_gel = output.phase == words.GEL or "gel" in output.name_words
        if transition.find_input(output) is None and transition.family != words.MAKE and not is_gel:
            yield from _check_new_name(output, input_words)
        yield from _check_components(transition, output, input_words)
        yield from _check_composition(transition, output, input_words)
        yield from _check_additives(transition, output, input_words)
        yield from _check_phrases(transition, output, input_words)


def _check_new_name(output: MaterialView, input_words: frozenset[str]) -> Findings:
    """Yield an error or a warning if the name of a new material has no word in common with the inputs."""
    # What a material is for is not in it: "transfection complexes for HEK293T".
    name, expected = re.split(r"\s(?:for|für|pour|para)\s", output.name)[0], "made of the inputs"
    name_words = words.content_words(name)
    if not name_words or name_words & input_words:
        return
    # Only a ready-made reagent is certain to come from outside; another name may be that of a product.
    # A buffer may be named after the salts that it was made of.
    has_salts = any(chemistry.find_substance(frozenset({word})) for word in input_words)
    reagents = [word for word in sorted(name_words & words.REAGENTS) if _is_unknown(word, input_words)]
    reagents = [word for word in reagents if not (has_salts and word in ("pbs", "hbss"))]
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
    adds_nothing = transition.family in (words.INERT, words.HEAT, words.READ)
    if not adds_nothing or transition.find_input(output) is None or output.is_used_up:
        return
    for leaf in output.leaves:
        key_words, value_words = leaf.word_set, frozenset(words.tokenize(leaf.value_text))
        has_share = _SHARE.search(leaf.value_text) and transition.family != words.HEAT
        cell_lines = value_words & _CELL_LINES if key_words & _LIVING else frozenset()
        ingredient = key_words - _AMBIGUOUS_COMPONENTS - properties.NOT_COMPONENT_WORDS
        for new_words in (ingredient if has_share else frozenset(), cell_lines):
            # Every word must be known: "sodium azide" shares its first word with other salts.
            if any(_is_unknown(word, input_words) for word in new_words):
                name = " ".join(sorted(new_words))
                text = f"{output.name} contains {name}, which no input contained"
                yield error_finding("L01", output.name, "contents of the inputs", name, text)


def _check_components(transition: Transition, output: MaterialView, input_words: frozenset[str]) -> Findings:
    """Yield an error or a warning if an output has the concentration of a component that no input mentions."""
    is_measured = transition.family in words.MEASUREMENTS and output.is_used_up
    if is_measured or transition.family in (words.MAKE, words.CONTROL):
        return
    adds_only = transition.family in (words.INERT, words.SERIAL, words.ADD)
    cannot_react = adds_only and transition.action not in _REACTING_ACTIONS
    for component, amount in output.concentrations.items():
        component_words = frozenset(component.split()) - _AMBIGUOUS_COMPONENTS
        if ion := chemistry.find_ion(component):
            yield from _check_ion(transition, output, ion, component)
            continue
        tail_words = _find_named_substance(output, amount)
        if not component_words or words.add_reagents(component_words | tail_words) & input_words or amount.value == 0:
            continue
        expected, text = "contents of the inputs", f"{output.name} contains {component}, which no input contained"
        is_substance = component_words & (words.REAGENTS | _MORE_REAGENTS | chemistry.SUBSTANCE_WORDS)
        if is_substance and (component_words & words.REAGENTS or cannot_react):
            yield error_finding("L01", output.name, expected, component, text)
        else:
            yield warning_finding("L01", output.name, expected, component, text, decidable=False)


def _find_named_substance(output: MaterialView, amount: Amount) -> frozenset[str]:
    """Return the words behind the amount in the property that has it: "0.1 M TBAPF6" names TBAPF6."""
    texts = (leaf.value_text for leaf in output.leaves if leaf.parse_amount(amount.dimension) == amount)
    return frozenset(word for text in texts for word in words.content_words(text))


def _check_ion(transition: Transition, output: MaterialView, ion: str, component: str) -> Findings:
    """Yield an error if an output has an ion that no input can bring. No reaction creates an element."""
    # Microbes oxidise sulfide and ammonium, and cells release phosphate.
    is_made = transition.family == words.HEAT and ion in ("so4", "no3", "nh4", "po4", "hco3")
    if transition.family == words.UNKNOWN or is_made or transition.family in words.MEASUREMENTS:
        return
    sources = [view for view in transition.inputs if not view.is_empty_vessel]
    holds = any(chemistry.has_source(ion, view.source_words) for view in sources)
    text = f"{output.name} contains {component}, which no input can bring"
    yield from require("L01", holds, output.name, f"a source of {component}", "none", text)


# Formula of a salt that is hardly soluble: its cation and anion. They never share one solution.
_PRECIPITATES = {"agcl": ("ag", "cl"), "agbr": ("ag", "br"), "baso4": ("ba", "so4")}


def _check_precipitates(transition: Transition) -> Findings:
    """Yield an error if a salt fell out whose cation no input can bring."""
    if transition.family not in (words.COMBINE, words.ADD, words.MOVE):
        return
    texts = [leaf.value_text for view in transition.usable_outputs for leaf in view.leaves]
    texts += [seen.full_text[:1000] for seen in transition.observations]
    new_words = {word for text in texts if text not in transition.input_texts for word in words.tokenize(text)}
    for formula, (cation, anion) in _PRECIPITATES.items():
        if formula in new_words and formula not in transition.input_words:
            sources = [view for view in transition.inputs if not view.is_empty_vessel]
            holds = any(_may_bring_cation(view, cation, anion) for view in sources)
            missing = "" if holds else cation
            if holds and not any(chemistry.has_source(anion, view.all_words) for view in sources):
                missing = anion
            text = f"{formula} precipitated, but no input can supply {missing}"
            yield from require("L01", not missing, transition.action, f"a source of {missing}", "none", text)


def _may_bring_cation(view: MaterialView, cation: str, anion: str) -> bool:
    """Return whether a material names a source of the cation, or may have one and does not have the anion."""
    named = view.all_words - chemistry.MIXED_SOURCES
    if chemistry.has_source(cation, named):
        return True
    return bool(view.all_words & chemistry.MIXED_SOURCES) and not chemistry.has_source(anion, named)


def _check_composition(transition: Transition, output: MaterialView, input_words: frozenset[str]) -> Findings:
    """Yield an error if a list of contents has a substance that no input has, and every input lists its contents."""
    if transition.family not in (words.MOVE, words.ADD, words.COMBINE, words.SERIAL):
        return
    filled = [view for view in transition.inputs if not view.is_empty_vessel]
    if not all(_lists_contents(view) or (words.SOLVENTS & set(view.name_words)) for view in filled):
        return
    known_words = words.add_reagents(words.REAGENTS | chemistry.SUBSTANCE_WORDS)
    for leaf in output.leaves:
        names = words.content_words(" ".join(leaf.words)) - properties.CONTENTS - _AMBIGUOUS_COMPONENTS
        amount = leaf.parse_amount()
        if not leaf.word_set & properties.CONTENTS or amount is None or amount.value <= 0 or not names & known_words:
            continue
        if not words.add_reagents(names) & input_words and not chemistry.find_ion(" ".join(sorted(names))):
            shown = " ".join(sorted(names))
            text = f"{output.name} contains {shown}, which no input contained"
            yield error_finding("L01", output.name, "contents of the inputs", shown, text)


# "5 % m/v sorbitol", "1.5 mM MgCl2", "10 U/mL heparin": an amount and the name of what it is of.
_PHRASE = re.compile(
    r"(?<![\w.<~-])(?<![<≤] )([0-9]{1,6}(?:\.[0-9]{1,5})?)\s?(?:%|[nµum]?M|[nµum]?g/m?L|[nµum]?g/[µu]L|U/mL|mol/L|mmol/L)\s?"
    r"(?:\(?[wvm]/[wvm]\)?\s?)?(?:of )?([A-Za-z][\w-]{2,30}(?: (?!in\b|and\b|with\b|from\b|of\b|for\b|to\b)[A-Za-z][\w-]{2,30}){0,2})(?![\w/])"
)
# "Polybrene 8 µg/mL" has the name first.
_NAME_FIRST = re.compile(
    r"(?<![\w-])([A-Za-z][\w-]{3,30}(?: [a-z][\w-]{3,30})?):? (?:at )?([0-9]{1,6}(?:\.[0-9]{1,5})?)\s?(?:%|[nµum]?M|[nµum]?g/m?L|[nµum]?g/[µu]L|U/mL|U|mol/L|mmol/L)(?![\w/])"
)
_MORE_REAGENTS = word_set(
    "heparin xylose maltose raffinose dextran azide peg azithromycin erythromycin rifampicin nisin chloroquine butyrate valproate ficoll percoll iodixanol "
    "guanidine guanidinium betaine formamide ctab tmao pluronic polysorbate nonidet chaps digitonin saponin lysozyme proteinase pepsin thimerosal"
)
# Mixtures that contain more than their labels list.
_MIXTURES = word_set(
    "kit mix master cocktail medium media supplement serum matrigel reagent lysis loading dye extract neurobasal dmem rpmi broth lb juice drink coffee tea"
)


def _check_phrases(transition: Transition, output: MaterialView, input_words: frozenset[str]) -> Findings:
    """Yield an error if a new text of an output gives an amount of a reagent or salt that no input has."""
    if transition.family in (words.MAKE, words.CONTROL, words.UNKNOWN, words.HEAT) or output.is_used_up:
        return
    known = words.add_reagents(input_words)
    filled = [view for view in transition.inputs if not view.is_empty_vessel]
    has_mixture = any(_MIXTURES & view.all_words for view in filled)
    lists_all = all(_lists_contents(view) or words.SOLVENTS & set(view.name_words) for view in filled)
    for leaf in output.leaves:
        if leaf.value_text in transition.input_texts:
            continue
        phrases = _PHRASE.findall(leaf.value_text)
        phrases += [(number, name) for name, number in _NAME_FIRST.findall(leaf.value_text)]
        for number, name in phrases:
            for word in words.tokenize(name):
                if float(number) > 0 and _is_new_reagent(word, known, lists_all, has_mixture):
                    text = f"{output.name} contains {name}, which no input contained"
                    yield error_finding("L01", output.name, "contents of the inputs", name, text)
                    break


def _is_new_reagent(word: str, known: frozenset[str], lists_all: bool, has_mixture: bool) -> bool:
    """Return whether a word names a reagent or salt that no input can have brought."""
    substance = chemistry.find_substance(frozenset({word}))
    is_reagent = word in words.REAGENTS | _MORE_REAGENTS or word in chemistry.SUBSTANCE_WORDS
    if not is_reagent or words.add_reagents(frozenset({word})) & known or chemistry.find_ion(word):
        return False
    # Two salts may bring what a third one names: NaCl and KCl are not told apart from their ions.
    return lists_all and not has_mixture if substance and substance.ions else not has_mixture


def _lists_contents(view: MaterialView) -> bool:
    return any(leaf.word_set & properties.CONTENTS for leaf in view.leaves)
