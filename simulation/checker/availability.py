"""L08, L09 and L18: what is used up, what is unlimited, and how many materials come out."""

import re
from decimal import Decimal

from simulation.checker.findings import Decided, Findings, error_finding, require, undecided_finding, warning_finding
from simulation.checker.reading import flows, units, words
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.transition import Transition

# Words in the name of the parameter that states the number of aliquots or dilutions.
_ALIQUOTS = ("aliquot", "portion", "tube", "copie", "replicate")

_DILUTIONS = ("dilution", "step", "point", "level", "tube")

# Actions after which every sample, or what was made of it, comes back.
_ONE_TO_ONE_FAMILIES = (*words.ONE_TO_ONE, words.TAKE)
# Actions that make a second material of every sample, beside what is left of it.
_SPLITTING_ACTIONS = ("Filter", "AttemptDNAExtraction", "SolidPhaseExtraction")

_USED_UP = re.compile(
    r"^(?:all |completely |entirely |fully )?(?:used up|consumed|discarded|exhausted|nothing left)\b|\ball (?:of it )?(?:was )?(?:used(?: up)?|consumed|discarded)\b",
    re.IGNORECASE,
)


def check_used_up(transition: Transition) -> Findings:
    """L08: yield an error if a used-up material is used, or a material that the action uses up is still available."""
    for output in transition.usable_outputs:
        is_stated = any(_USED_UP.search(leaf.value_text) for leaf in output.leaves)
        if is_stated and output.liquid_volume == 0 and not output.is_empty_vessel:
            text = f"{output.name} is described as used up, but it is available for further use"
            yield error_finding("L08", output.name, "used up", "available", text)
    for view in transition.inputs:
        text = f"{view.name} had been used up before and is used again"
        yield from require("L08", not view.is_used_up, view.name, "available", "used up", text)
    for before, after in transition.list_kept_pairs():
        text = ""
        is_undiminished = before.liquid_volume == after.liquid_volume
        if transition.action == "Discard" and not before.is_empty_vessel:
            text = f"{transition.action} uses up {after.name}, but it is still available afterwards"
        elif transition.action == "CellCounter" and is_undiminished and not before.is_empty_vessel:
            text = f"{transition.action} uses up what it counts of {after.name}, but all of it is still available"
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
        elif before is None and (supply := _find_supply(transition, output)) is not None:
            text = f"{supply.name} is unlimited, and {output.name} was handed back"
            yield error_finding("L09", output.name, "left out", "handed back", text)
        elif output.is_unlimited and transition.action != "ManifestMaterials":
            yield error_finding("L09", output.name, "limited", "unlimited", f"{output.name} became unlimited")


# "982 ml left", "less 200 µL": what says that a material is the rest of another, also if only its amount says so.
_REST = words.REMAINDER | words.word_set("less minus after")
_AMOUNT = re.compile(r"(?<![\w.])[0-9]+(?:\.[0-9]+)?\s?[A-Za-zµ]*")


def _find_supply(transition: Transition, output: MaterialView) -> MaterialView | None:
    """Return the unlimited supply of which an unlinked output claims to be the rest, or None."""
    core = set(words.core_words(_AMOUNT.sub(" ", output.name))) - _REST
    if not core or not _REST & set(output.name_words) or output.is_empty_vessel:
        return None
    if any(core <= set(view.name_words) for view in transition.limited_inputs):
        return None
    return next((view for view in transition.inputs if view.is_unlimited and core <= set(view.name_words)), None)


def check_output_count(transition: Transition) -> Findings:
    """L18: check that as many materials come back as the catalogue promises, and that no remainder is missing."""
    action, family = transition.action, transition.family
    if action == "Aliquot":
        yield from _check_new_count(transition, transition.parameters.find_count(*_ALIQUOTS), "aliquots")
    elif family == words.SERIAL:
        yield from _check_new_count(transition, transition.parameters.find_count(*_DILUTIONS), "dilutions")
    elif action in words.GELS:
        gels = [view for view in transition.outputs if view.phase == words.GEL or "gel" in view.name_words]
        count = len([view for view in gels if transition.find_input(view) is None])
        text = f"all samples run on one gel, but {count} came out"
        yield from require("L18", count == 1, action, "one gel", str(count), text)
    elif family == words.COMBINE:
        yield from _check_pool_count(transition)
    elif family in _ONE_TO_ONE_FAMILIES:
        yield from _check_one_per_sample(transition)
    if family == words.MAKE:
        yield from _check_synthesis_count(transition)
    if family in words.MEASUREMENTS:
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
        leaf.word_set & {"well", "tube", "aliquot", "dilution"} for leaf in new_outputs[0].leaves
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
    """Yield a finding if fewer materials come out than samples (limited inputs that no parameter names) went in."""
    limited = [view for view in transition.limited_inputs if not view.is_empty_vessel]
    samples = [view for view in limited if not transition.parameters.has_named(view)]
    if not samples:
        return
    yield Decided("L18")
    if transition.action in _SPLITTING_ACTIONS:
        yield from _check_split_samples(transition, samples)
    others = [view for view in transition.inputs if all(view is not sample for sample in samples)]
    of_samples = [view for view in transition.outputs if all(transition.find_output(o) is not view for o in others)]
    count = len([view for view in of_samples if not view.is_unlimited])
    if count >= len(samples) or transition.action == "CellCounter":
        return
    text = f"{len(samples)} samples went in and {count} materials came out"
    is_measured = bool(transition.family in words.MEASUREMENTS and transition.observations)
    build_finding = warning_finding if count == 0 and is_measured else error_finding
    yield build_finding("L18", transition.action, f"{len(samples)} materials", str(count), text)


def _check_split_samples(transition: Transition, samples: list[MaterialView]) -> Findings:
    """Yield an error if some samples gave a new material that has words of their name, and others gave none."""
    new_outputs = [view for view in transition.usable_outputs if transition.find_input(view) is None]
    names = [set(view.name_words) for view in samples]
    own = [
        name - set().union(*(other for other in names if other is not name), words.PRODUCT_WORDS, {"a"})
        for name in names
    ]
    products = [[view for view in new_outputs if word_set & set(view.name_words)] for word_set in own]
    # Each product must be that of one sample, or names do not tell them apart.
    is_clear = all(own) and sum(map(len, products)) == len(new_outputs) and all(len(found) < 2 for found in products)
    if is_clear and 0 < len(new_outputs) < len(samples) and all(transition.find_output(view) for view in samples):
        missing = next(view.name for view, found in zip(samples, products, strict=True) if not found)
        text = f"{len(samples)} samples were treated and {len(new_outputs)} new materials came out; that of {missing} is missing"
        yield error_finding("L18", missing, f"{len(samples)} materials", str(len(new_outputs)), text)


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
