"""L06 across the step: a material keeps its physical state unless the action changes it."""

from simulation.checker.findings import Ran, Said, error
from simulation.checker.reading import families, ladders, roles, terms
from simulation.checker.reading.reading import View
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.words import listed


def portions(transition: Transition) -> Said:
    """A portion of a dry solid is a dry solid, and so is the remainder."""
    source = roles.source_of(transition) if transition.family == families.MOVE else None
    if source is None or source.phase != terms.SOLID:
        return
    remainder = transition.after(source)
    solids = [
        view
        for view in transition.kept
        if view is remainder or (input_before := transition.before(view)) is None or input_before.supply
    ]
    for view in solids:
        yield Ran("L06")
        if view.phase in terms.FLUID:
            yield error(
                "L06",
                view.name,
                "a solid",
                view.phase,
                f"{view.name} is {view.phase}, but {source.name} is solid and nothing dissolved it",
            )


def solid_rungs(transition: Transition) -> Said:
    for output in ladders.rungs(transition):
        if output.phase in (terms.SOLID, terms.FROZEN):
            yield error(
                "L06",
                output.name,
                "a liquid",
                output.phase,
                f"{output.name} is {output.phase} immediately after dilution",
            )


# Actions that may melt or freeze a material, dry it, or dissolve it.
_MELTS = listed(
    "Incubate Thermocycler Autoclave Microwave Wait Storage DryingOven MeasureMeltingPoint CellCultureIncubate"
)


_DRIES = listed(
    "DryingOven Lyophilize Desiccate Evaporate Filter Aspirate Combine ApplyMagnet SolidPhaseExtraction Grind"
)


_DISSOLVES = listed("Resuspend Dilute FillToVolume Transfer Aliquot Combine AcousticLiquidHandling AdjustpH Dialysis AttemptDNAExtraction Wash Mix "
                       "SolidPhaseExtraction SerialDilute")  # fmt: skip


def changed(transition: Transition, before: View, after: View) -> Said:
    """A liquid becomes solid only by drying or freezing, a solid becomes liquid only by dissolving or melting."""
    if before.unlimited or after.gone or not before.phase or not after.phase:
        return
    yield Ran("L06")
    was_wet, is_wet = before.phase in (*terms.FLUID, terms.ADHERENT), after.phase in (*terms.FLUID, terms.ADHERENT)
    if was_wet and after.phase == terms.SOLID and transition.action not in _DRIES | _MELTS | {"FlashFreeze"}:
        yield error(
            "L06",
            after.name,
            before.phase,
            after.phase,
            f"{after.name} was {before.phase} and is {after.phase} after {transition.action}, which cannot dry it",
        )
    if before.phase == terms.SOLID and is_wet and transition.action not in _DISSOLVES | _MELTS:
        yield error(
            "L06",
            after.name,
            before.phase,
            after.phase,
            f"{after.name} was solid and is {after.phase} after {transition.action}, which cannot dissolve it",
        )


def frozen_warm(transition: Transition, output: View) -> Said:
    """A frozen material is in the cold; a watery liquid that was just put into the deep cold does not stay liquid."""
    before = transition.before(output)
    was_frozen = before is not None and (before.phase == terms.FROZEN or before.condition in terms.FROZEN_CONDITIONS)
    is_warm = output.condition and output.condition not in terms.FROZEN_CONDITIONS
    if output.phase == terms.FROZEN and is_warm and not was_frozen and not _just_cold(before, output):
        yield error(
            "L06",
            output.name,
            "liquid",
            "frozen",
            f"{output.name} is frozen at {output.condition}, but nothing froze it",
        )
    was_drawn_from = (
        before is not None and output.held is not None and before.held is not None and output.held < before.held
    )
    if (
        output.phase == terms.FROZEN
        and was_drawn_from
        and transition.family in (families.MOVE, families.ADD, families.CONSUME, families.COMBINE, families.SERIAL)
    ):
        yield error(
            "L06",
            output.name,
            "liquid",
            "frozen",
            f"{output.name} is frozen, although a liquid was drawn from it in this step",
        )
    if (
        output.phase in terms.FLUID
        and output.condition in ("-80C", "-196C", "dry_ice")
        and not output.mentions & _STAYS_LIQUID
    ):
        # An input that was already liquid in the cold is an error of an earlier step.
        same_condition = before is not None and before.condition == output.condition
        if not same_condition:
            yield error(
                "L06", output.name, "frozen", output.phase, f"{output.name} is {output.phase} at {output.condition}"
            )


def _just_cold(before: View | None, output: View) -> bool:
    """Return whether a material on ice or in the fridge may be frozen: it was not liquid there before."""
    if output.condition not in ("ice", "4C"):
        return False
    return before is None or before.condition != output.condition or before.phase not in terms.FLUID


# Solvents that do not freeze at -80 °C.
_STAYS_LIQUID = listed("ethanol methanol acetone isopropanol hexane chloroform toluene ether acetonitrile")
