"""L18: the number of materials that an action returns."""

from decimal import Decimal

from simulation.checker.findings import Decided, Findings, error_finding, undecided_finding, warning_finding
from simulation.checker.reading import families, flows, units, vocabulary
from simulation.checker.reading.transition import Transition

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
    gels = [view for view in transition.outputs if view.phase == vocabulary.GEL or "gel" in view.name_words]
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
