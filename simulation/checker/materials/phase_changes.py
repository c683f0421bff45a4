"""L06 across the step: a material keeps its physical state unless the action changes it."""

from simulation.checker.findings import Decided, Findings, error_finding
from simulation.checker.reading import dilution_series, families, roles, vocabulary
from simulation.checker.reading.material_view import MaterialView
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.words import word_set


def check_solid_portions(transition: Transition) -> Findings:
    """Yield an error if a portion or the remainder of a dry solid is liquid."""
    source = roles.find_source(transition) if transition.family == families.MOVE else None
    if source is None or source.phase != vocabulary.SOLID:
        return
    remainder = transition.find_output(source)
    solids = [
        view
        for view in transition.usable_outputs
        if view is remainder or (input_before := transition.find_input(view)) is None or input_before.is_empty_vessel
    ]
    for view in solids:
        yield Decided("L06")
        if view.phase in vocabulary.FLUID:
            yield error_finding(
                "L06",
                view.name,
                "a solid",
                view.phase,
                f"{view.name} is {view.phase}, but {source.name} is solid and nothing dissolved it",
            )


def check_dilution_phases(transition: Transition) -> Findings:
    for output in dilution_series.iter_dilutions(transition):
        if output.phase in (vocabulary.SOLID, vocabulary.FROZEN):
            yield error_finding(
                "L06",
                output.name,
                "a liquid",
                output.phase,
                f"{output.name} is {output.phase} immediately after dilution",
            )


# Actions that may melt or freeze a material, dry it, or dissolve it.
_MELTS = word_set(
    "Incubate Thermocycler Autoclave Microwave Wait Storage DryingOven MeasureMeltingPoint CellCultureIncubate"
)


_DRIES = word_set(
    "DryingOven Lyophilize Desiccate Evaporate Filter Aspirate Combine ApplyMagnet SolidPhaseExtraction Grind"
)


_DISSOLVES = word_set("Resuspend Dilute FillToVolume Transfer Aliquot Combine AcousticLiquidHandling AdjustpH Dialysis AttemptDNAExtraction Wash Mix "
                       "SolidPhaseExtraction SerialDilute")  # fmt: skip


def check_phase_change(transition: Transition, before: MaterialView, after: MaterialView) -> Findings:
    """Yield an error if a liquid becomes solid, or a solid becomes liquid, in an action that cannot cause this."""
    if before.is_unlimited or after.is_used_up or not before.phase or not after.phase:
        return
    yield Decided("L06")
    was_wet, is_wet = (
        before.phase in (*vocabulary.FLUID, vocabulary.ADHERENT),
        after.phase in (*vocabulary.FLUID, vocabulary.ADHERENT),
    )
    if was_wet and after.phase == vocabulary.SOLID and transition.action not in _DRIES | _MELTS | {"FlashFreeze"}:
        yield error_finding(
            "L06",
            after.name,
            before.phase,
            after.phase,
            f"{after.name} was {before.phase} and is {after.phase} after {transition.action}, which cannot dry it",
        )
    if before.phase == vocabulary.SOLID and is_wet and transition.action not in _DISSOLVES | _MELTS:
        yield error_finding(
            "L06",
            after.name,
            before.phase,
            after.phase,
            f"{after.name} was solid and is {after.phase} after {transition.action}, which cannot dissolve it",
        )


def check_freezing(transition: Transition, output: MaterialView) -> Findings:
    """Yield an error if a material cannot be frozen, or if a watery liquid stays liquid when put into the deep cold."""
    before = transition.find_input(output)
    was_frozen = before is not None and (
        before.phase == vocabulary.FROZEN or before.condition in vocabulary.FROZEN_CONDITIONS
    )
    is_warm = output.condition and output.condition not in vocabulary.FROZEN_CONDITIONS
    if output.phase == vocabulary.FROZEN and is_warm and not was_frozen and not _may_be_frozen(before, output):
        yield error_finding(
            "L06",
            output.name,
            "liquid",
            "frozen",
            f"{output.name} is frozen at {output.condition}, but nothing froze it",
        )
    was_drawn_from = (
        before is not None
        and output.liquid_volume is not None
        and before.liquid_volume is not None
        and output.liquid_volume < before.liquid_volume
    )
    if (
        output.phase == vocabulary.FROZEN
        and was_drawn_from
        and transition.family in (families.MOVE, families.ADD, families.CONSUME, families.COMBINE, families.SERIAL)
    ):
        yield error_finding(
            "L06",
            output.name,
            "liquid",
            "frozen",
            f"{output.name} is frozen, although a liquid was drawn from it in this step",
        )
    if (
        output.phase in vocabulary.FLUID
        and output.condition in ("-80C", "-196C", "dry_ice")
        and not output.all_words & _STAYS_LIQUID
    ):
        # An input that was already liquid in the cold is an error of an earlier step.
        same_condition = before is not None and before.condition == output.condition
        if not same_condition:
            yield error_finding(
                "L06", output.name, "frozen", output.phase, f"{output.name} is {output.phase} at {output.condition}"
            )


def _may_be_frozen(before: MaterialView | None, output: MaterialView) -> bool:
    """Return whether a material on ice or in the fridge may be frozen, because it was not liquid there before."""
    if output.condition not in ("ice", "4C"):
        return False
    return before is None or before.condition != output.condition or before.phase not in vocabulary.FLUID


# Solvents that do not freeze at -80 °C.
_STAYS_LIQUID = word_set("ethanol methanol acetone isopropanol hexane chloroform toluene ether acetonitrile")
