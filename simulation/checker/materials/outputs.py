"""L18: how many materials come back."""

from decimal import Decimal

from simulation.checker.findings import Ran, Said, error, undecided, warning
from simulation.checker.reading import families, flows, terms, units
from simulation.checker.reading.transition import Transition

_ALIQUOTS = ("aliquot", "portion", "tube", "copie", "replicate")


_DILUTIONS = ("dilution", "step", "point", "level", "tube")


def counts(transition: Transition) -> Said:
    """L18: as many materials as the catalogue says, and a residue exactly where something is left."""
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
                "data of each sample",
                "no observation",
                f"{transition.action} recorded nothing",
            )
    for draw in flows.of(transition).draws:
        yield from _residue(draw)


def _made(transition: Transition, wanted: int | None, what: str) -> Said:
    new = [
        view
        for view in transition.kept
        if (before := transition.before(view)) is None or before.supply or before.held == 0
    ]
    if wanted is None:
        yield undecided("L18", transition.action, f"the parameters do not say how many {what}")
        return
    if flows.of(transition).why:
        yield undecided(
            "L18", transition.action, f"new and old materials cannot be told apart: {flows.of(transition).why}"
        )
        return
    yield Ran("L18")
    together = len(new) == 1 and any(
        set(leaf.words) & {"well", "tube", "aliquot", "dilution"} for leaf in new[0].leaves
    )
    if len(new) != wanted and not (together and wanted > 1) and transition.outputs:
        yield error(
            "L18",
            transition.action,
            f"{wanted} {what}",
            str(len(new)),
            f"{wanted} {what} were asked for and {len(new)} came out",
        )


def _gels(transition: Transition) -> Said:
    found = [view for view in transition.outputs if view.phase == terms.GEL or "gel" in view.words]
    found = [view for view in found if transition.before(view) is None]
    yield Ran("L18")
    if len(found) != 1:
        yield error(
            "L18", transition.action, "one gel", str(len(found)), f"all samples run on one gel; {len(found)} came out"
        )


def _pools(transition: Transition) -> Said:
    new = [view for view in transition.kept if transition.before(view) is None]
    rest = [
        after for before, after in transition.pairs() if not after.gone and not before.unlimited and not before.supply
    ]
    yield Ran("L18")
    if len(new) > 1:
        yield error(
            "L18",
            transition.action,
            "one combined material",
            str(len(new)),
            f"{len(new)} new materials came out of combining",
        )
    elif not transition.kept:
        yield error("L18", transition.action, "one combined material", "none", "no combined material came out")
    elif not new and len(rest) > 1:
        yield undecided("L18", transition.action, "it is not clear which material is the combined one")


def _synthesised(transition: Transition) -> Said:
    """One material per sequence."""
    lists = [v for k, v in transition.parameters.raw.items() if "sequence" in str(k).lower() and isinstance(v, list)]
    if len(lists) != 1:
        return
    yield Ran("L18")
    if len(lists[0]) != len(transition.kept):
        text = f"{len(lists[0])} sequences were asked for and {len(transition.kept)} materials came out"
        yield error("L18", transition.action, f"{len(lists[0])} materials", str(len(transition.kept)), text)


def _each(transition: Transition) -> Said:
    """One output per sample. Which materials are samples is clear only where no other parameter names them."""
    aside = list(transition.parameters.named.values())
    samples = [v for v in transition.limited if not v.supply and not any(v is other for other in aside)]
    if not samples:
        return
    yield Ran("L18")
    out = len([view for view in transition.outputs if not view.unlimited])
    taken_up = (
        any(view.held is not None and view.held < 100 for view in samples) and transition.family == families.CONSUME
    )
    if out >= len(samples) or transition.action == "CellCounter":
        return
    text = f"{len(samples)} samples went in and {out} materials came out"
    if out == 0 and (transition.family in families.MEASUREMENTS or taken_up) and transition.seen:
        yield warning("L18", transition.action, f"{len(samples)} materials", "0", text)
    else:
        yield error("L18", transition.action, f"{len(samples)} materials", str(out), text)


def _residue(draw: flows.Draw) -> Said:
    source = draw.source
    if source.unlimited or source.held is None or draw.volume is None or not draw.stated:
        return
    yield Ran("L18")
    rest = source.held - draw.volume
    visible = max(source.held / 20, draw.volume / 20, Decimal(1)) + (source.dead.value if source.dead else 0)
    if rest > visible and (draw.left is None or draw.left.gone):
        what = "no residue" if draw.left is None else "used up"
        shown = units.show(rest, "volume")
        yield error(
            "L18",
            source.name,
            f"{shown} left",
            what,
            f"{shown} of {source.name} are left over and it is not there for further use",
        )
