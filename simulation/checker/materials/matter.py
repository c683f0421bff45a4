"""L06 over the step: matter keeps its state unless the action changes it."""

from simulation.checker.findings import Ran, Said, error
from simulation.checker.reading import families, ladders, roles, terms
from simulation.checker.reading.reading import View
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.words import listed


def portions(transition: Transition) -> Said:
    """A portion of a dry solid is a dry solid, and so is what is left of it."""
    source = roles.source_of(transition) if transition.family == families.MOVE else None
    if source is None or source.phase != terms.SOLID:
        return
    left = transition.after(source)
    dry = [
        view for view in transition.kept if view is left or (start := transition.before(view)) is None or start.supply
    ]
    for view in dry:
        yield Ran("L06")
        if view.phase in terms.FLUID:
            yield error(
                "L06",
                view.name,
                "a solid",
                view.phase,
                f"{view.name} is {view.phase}; {source.name} is solid and nothing dissolved it",
            )


def solid_rungs(transition: Transition) -> Said:
    for output in ladders.rungs(transition):
        if output.phase in (terms.SOLID, terms.FROZEN):
            yield error(
                "L06",
                output.name,
                "a liquid",
                output.phase,
                f"{output.name} is {output.phase} right after being diluted",
            )


_MELTS = listed(
    "Incubate Thermocycler Autoclave Microwave Wait Storage DryingOven MeasureMeltingPoint CellCultureIncubate"
)


_DRIES = listed(
    "DryingOven Lyophilize Desiccate Evaporate Filter Aspirate Combine ApplyMagnet SolidPhaseExtraction Grind"
)


_DISSOLVES = listed("Resuspend Dilute FillToVolume Transfer Aliquot Combine AcousticLiquidHandling AdjustpH Dialysis AttemptDNAExtraction Wash Mix "
                       "SolidPhaseExtraction SerialDilute")  # fmt: skip


def changed(transition: Transition, before: View, after: View) -> Said:
    """Liquid to solid only by drying, solid to liquid only by dissolving or melting."""
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
            f"{after.name} was {before.phase} and is {after.phase} after {transition.action}",
        )
    if before.phase == terms.SOLID and is_wet and transition.action not in _DISSOLVES | _MELTS:
        yield error(
            "L06",
            after.name,
            before.phase,
            after.phase,
            f"{after.name} was solid and is {after.phase} after {transition.action}",
        )


def frozen_warm(transition: Transition, output: View) -> Said:
    """Frozen needs the cold, and in the deep cold nothing watery that just got there stays liquid."""
    before = transition.before(output)
    was_frozen = before is not None and (before.phase == terms.FROZEN or before.condition in terms.FROZEN_CONDITIONS)
    warm = output.condition and output.condition not in terms.FROZEN_CONDITIONS
    if output.phase == terms.FROZEN and warm and not was_frozen and not _just_cold(before, output):
        yield error(
            "L06",
            output.name,
            "liquid",
            "frozen",
            f"{output.name} is frozen at {output.condition} and nothing froze it",
        )
    drawn = before is not None and output.held is not None and before.held is not None and output.held < before.held
    if (
        output.phase == terms.FROZEN
        and drawn
        and transition.family in (families.MOVE, families.ADD, families.CONSUME, families.COMBINE, families.SERIAL)
    ):
        yield error(
            "L06",
            output.name,
            "liquid",
            "frozen",
            f"{output.name} is frozen, yet a liquid was drawn from it in this step",
        )
    if (
        output.phase in terms.FLUID
        and output.condition in ("-80C", "-196C", "dry_ice")
        and not output.mentions & _STAYS_LIQUID
    ):
        same = before is not None and before.condition == output.condition
        if not same:
            yield error(
                "L06", output.name, "frozen", output.phase, f"{output.name} is {output.phase} at {output.condition}"
            )


def _just_cold(before: View | None, output: View) -> bool:
    """On ice or in the fridge a thing may be taken for frozen, unless it stood there liquid before."""
    if output.condition not in ("ice", "4C"):
        return False
    return before is None or before.condition != output.condition or before.phase not in terms.FLUID


_STAYS_LIQUID = listed("ethanol methanol acetone isopropanol hexane chloroform toluene ether acetonitrile")
