"""L18: how many materials come back."""

from decimal import Decimal

from simulation.checker.findings import Ran, Said, error, undecided, warning
from simulation.checker.reading import families, flows, terms, units
from simulation.checker.reading.transition import Transition

# Words in the parameter that states how many.
_ALIQUOTS = ("aliquot", "portion", "tube", "copie", "replicate")
_DILUTIONS = ("dilution", "step", "point", "level", "tube")


def counts(transition: Transition) -> Said:
    """L18: as many materials as the catalogue promises, and a remainder exactly if something is left."""
    if not transition.success:
        return
    if transition.action == "Aliquot":
        yield from _made(transition, transition.parameters.count(*_ALIQUOTS), "aliquots")
    elif transition.family == families.SERIAL:
        yield from _made(transition, transition.parameters.count(*_DILUTIONS), "dilutions")
    elif transition.action in families.GELS:
        yield from _gels(transition)
    elif transition.family == families.COMBINE:
        yield from _pools(transition)
    elif transition.family in families.ONE_TO_ONE or transition.action in ("Aspirate", "Wash", "Dialysis"):
        yield from _each(transition)
    if transition.family == families.MAKE:
        yield from _synthesised(transition)
    if transition.family in families.MEASUREMENTS:
        yield Ran("L18")
        if not transition.seen:
            yield error(
                "L18",
                transition.action,
                "data for each sample",
                "no observation",
                f"{transition.action} recorded nothing",
            )
    for draw in flows.of(transition).draws:
        yield from _residue(draw)


def _made(transition: Transition, wanted: int | None, what: str) -> Said:
    new_outputs = [
        view
        for view in transition.kept
        if (before := transition.before(view)) is None or before.supply or before.held == 0
    ]
    if wanted is None:
        yield undecided("L18", transition.action, f"the parameters do not state how many {what}")
        return
    if flows.of(transition).why:
        yield undecided(
            "L18", transition.action, f"new and old materials cannot be distinguished: {flows.of(transition).why}"
        )
        return
    yield Ran("L18")
    # Some simulators describe all aliquots as one material with a property like "tubes: 5".
    one_for_all = len(new_outputs) == 1 and any(
        set(leaf.words) & {"well", "tube", "aliquot", "dilution"} for leaf in new_outputs[0].leaves
    )
    if len(new_outputs) != wanted and not (one_for_all and wanted > 1) and transition.outputs:
        yield error(
            "L18",
            transition.action,
            f"{wanted} {what}",
            str(len(new_outputs)),
            f"{wanted} {what} were requested and {len(new_outputs)} came out",
        )


def _gels(transition: Transition) -> Said:
    gels = [view for view in transition.outputs if view.phase == terms.GEL or "gel" in view.words]
    gels = [view for view in gels if transition.before(view) is None]
    yield Ran("L18")
    if len(gels) != 1:
        yield error(
            "L18", transition.action, "one gel", str(len(gels)), f"all samples run on one gel, but {len(gels)} came out"
        )


def _pools(transition: Transition) -> Said:
    new_outputs = [view for view in transition.kept if transition.before(view) is None]
    continued = [
        after for before, after in transition.pairs() if not after.gone and not before.unlimited and not before.supply
    ]
    yield Ran("L18")
    if len(new_outputs) > 1:
        yield error(
            "L18",
            transition.action,
            "one combined material",
            str(len(new_outputs)),
            f"{len(new_outputs)} new materials came out of combining",
        )
    elif not transition.kept:
        yield error("L18", transition.action, "one combined material", "none", "no combined material came out")
    elif not new_outputs and len(continued) > 1:
        yield undecided("L18", transition.action, "it is not clear which material is the combined one")


def _synthesised(transition: Transition) -> Said:
    """One material comes out per sequence."""
    sequence_lists = [
        v for k, v in transition.parameters.raw.items() if "sequence" in str(k).lower() and isinstance(v, list)
    ]
    if len(sequence_lists) != 1:
        return
    yield Ran("L18")
    if len(sequence_lists[0]) != len(transition.kept):
        text = f"{len(sequence_lists[0])} sequences were requested and {len(transition.kept)} materials came out"
        yield error("L18", transition.action, f"{len(sequence_lists[0])} materials", str(len(transition.kept)), text)


def _each(transition: Transition) -> Said:
    """One output comes out per sample.

    Which materials are samples is clear only if no other parameter names them.
    """
    named_materials = list(transition.parameters.named.values())
    samples = [v for v in transition.limited if not v.supply and not any(v is other for other in named_materials)]
    if not samples:
        return
    yield Ran("L18")
    output_count = len([view for view in transition.outputs if not view.unlimited])
    # An instrument that uses up its sample may use all of a volume below 100 µL.
    may_be_used_up = (
        any(view.held is not None and view.held < 100 for view in samples) and transition.family == families.CONSUME
    )
    if output_count >= len(samples) or transition.action == "CellCounter":
        return
    text = f"{len(samples)} samples went in and {output_count} materials came out"
    if output_count == 0 and (transition.family in families.MEASUREMENTS or may_be_used_up) and transition.seen:
        yield warning("L18", transition.action, f"{len(samples)} materials", "0", text)
    else:
        yield error("L18", transition.action, f"{len(samples)} materials", str(output_count), text)


def _residue(draw: flows.Draw) -> Said:
    source = draw.source
    if source.unlimited or source.held is None or draw.volume is None or not draw.stated:
        return
    yield Ran("L18")
    volume_left = source.held - draw.volume
    # Nobody expects a simulator to list a remainder below 5 % or 1 µL, or within the dead volume.
    least_visible = max(source.held / 20, draw.volume / 20, Decimal(1)) + (source.dead.value if source.dead else 0)
    if volume_left > least_visible and (draw.left is None or draw.left.gone):
        outcome = "no residue" if draw.left is None else "used up"
        volume_text = units.show(volume_left, "volume")
        yield error(
            "L18",
            source.name,
            f"{volume_text} left",
            outcome,
            f"{volume_text} of {source.name} is left, but it is not available for further use",
        )
