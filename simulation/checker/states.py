"""L06: whether the physical state of a material allows what is done with it."""

from collections.abc import Iterator

from simulation.checker.findings import Decided, Findings, error_finding, undecided_finding
from simulation.checker.reading import families, flows, words
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.words import word_set


def check_solid_portions(transition: Transition) -> Findings:
    """Yield an error if a portion or the remainder of a dry solid is liquid."""
    source = flows.find_source(transition) if transition.family == families.MOVE else None
    if source is None or source.phase != words.SOLID:
        return
    remainder = transition.find_output(source)
    solids = [
        view
        for view in transition.usable_outputs
        if view is remainder or (input_before := transition.find_input(view)) is None or input_before.is_empty_vessel
    ]
    for view in solids:
        yield Decided("L06")
        if view.phase in words.FLUID:
            yield error_finding(
                "L06",
                view.name,
                "a solid",
                view.phase,
                f"{view.name} is {view.phase}, but {source.name} is solid and nothing dissolved it",
            )


def check_dilution_phases(transition: Transition) -> Findings:
    for output in flows.iter_new_outputs(transition):
        if output.phase in (words.SOLID, words.FROZEN):
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
        before.phase in (*words.FLUID, words.ADHERENT),
        after.phase in (*words.FLUID, words.ADHERENT),
    )
    if was_wet and after.phase == words.SOLID and transition.action not in _DRIES | _MELTS | {"FlashFreeze"}:
        yield error_finding(
            "L06",
            after.name,
            before.phase,
            after.phase,
            f"{after.name} was {before.phase} and is {after.phase} after {transition.action}, which cannot dry it",
        )
    if before.phase == words.SOLID and is_wet and transition.action not in _DISSOLVES | _MELTS:
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
    was_frozen = before is not None and (before.phase == words.FROZEN or before.condition in words.FROZEN_CONDITIONS)
    is_warm = output.condition and output.condition not in words.FROZEN_CONDITIONS
    if output.phase == words.FROZEN and is_warm and not was_frozen and not _may_be_frozen(before, output):
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
        output.phase == words.FROZEN
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
        output.phase in words.FLUID
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
    return before is None or before.condition != output.condition or before.phase not in words.FLUID


# Solvents that do not freeze at -80 °C.
_STAYS_LIQUID = word_set("ethanol methanol acetone isopropanol hexane chloroform toluene ether acetonitrile")


# Actions that accept a frozen material.
_ACCEPTS_FROZEN = word_set(
    "Storage Wait Incubate CellCultureIncubate Lyophilize FlashFreeze FreezeCells Discard ImageSample VisualInspection MeasureWeight "
    "Thermocycler Microwave Autoclave SeparateWells ManifestMaterials Grind Desiccate DryingOven"
)
_NEEDS_LIQUID = word_set(
    "MeasurepH MeasureConductivity MeasureDissolvedOxygen MeasureOsmolality MeasureSurfaceTension MeasureViscosity HPLC "
    "MeasureRefractiveIndex DynamicFoamAnalysis CyclicVoltammetry FlowCytometry CellCounter CoulterCount "
    "CountLiquidParticles NucleicAcidQuantification Degas Aliquot SerialDilute AcousticLiquidHandling"
)
_NEEDS_SOLID = word_set("Grind MeasureMeltingPoint MeasureCount")
# Actions that need cells in suspension, not attached to their vessel.
_NEEDS_SUSPENSION = word_set("FlowCytometry CellCounter CoulterCount Aliquot SerialDilute")


def check_physical_states(transition: Transition) -> Findings:
    """L06: yield an error if a material's state does not fit the action, or if a material changes state by itself."""
    if not transition.is_success:
        return
    for view in _iter_handled_materials(transition):
        yield from _check_state(transition, view)
    for before, after in transition.list_pairs():
        yield from check_phase_change(transition, before, after)
    for output in transition.usable_outputs:
        yield from check_freezing(transition, output)
    for fill in flows.trace_liquids(transition).fills:
        all_liquid = all(part.source.phase in words.FLUID or part.source.is_empty_vessel for part in fill.parts)
        if (
            all_liquid
            and fill.output.phase == words.SOLID
            and any(part.source.phase in words.FLUID for part in fill.parts)
        ):
            text = f"{fill.output.name} is a solid, but it was made of liquids only"
            yield error_finding("L06", fill.output.name, "a liquid", "a solid", text)
    yield from check_solid_portions(transition)
    if transition.family == families.SERIAL:
        yield from check_dilution_phases(transition)


def _iter_handled_materials(transition: Transition) -> Iterator[MaterialView]:
    """Yield the materials that the action pipettes, stirs or measures, without vessels and destinations."""
    if transition.family == families.MOVE:
        source = flows.find_source(transition)
        yield from [source] if source is not None else []
    elif transition.action not in _ACCEPTS_FROZEN:
        yield from (view for view in transition.inputs if not view.is_empty_vessel)


def _check_state(transition: Transition, view: MaterialView) -> Findings:
    frozen = view.is_frozen
    if frozen is None:
        yield undecided_finding("L06", view.name, "whether it is frozen is not known")
    elif transition.action not in _ACCEPTS_FROZEN:
        yield Decided("L06")
        if frozen:
            yield error_finding("L06", view.name, "thawed", f"frozen at {view.condition}",
                        f"{view.name} is frozen at {view.condition} and was used without thawing")  # fmt: skip
    if view.phase == words.ADHERENT and _needs_suspension(transition):
        yield error_finding("L06", view.name, "cells in suspension", "attached cells",
                    f"the cells of {view.name} are attached, but {transition.action} needs them in suspension")  # fmt: skip
    if view.phase == words.SOLID and _needs_liquid(transition):
        yield error_finding(
            "L06", view.name, "a liquid", "a solid", f"{view.name} is solid, but {transition.action} needs a liquid"
        )
    if view.phase in words.FLUID and transition.action in _NEEDS_SOLID:
        yield error_finding(
            "L06",
            view.name,
            "a solid",
            f"a {view.phase}",
            f"{view.name} is {view.phase}, but {transition.action} needs a solid",
        )


def _needs_suspension(transition: Transition) -> bool:
    return transition.action in _NEEDS_SUSPENSION or (
        transition.action == "Transfer" and transition.parameters.find_moved_volume() is not None
    )


def _needs_liquid(transition: Transition) -> bool:
    """Return whether the action needs a liquid, because of its instrument or because it draws a volume."""
    draws_volume = transition.family == families.MOVE and transition.parameters.find_moved_volume() is not None
    return transition.action in _NEEDS_LIQUID - {"Aliquot", "AcousticLiquidHandling", "SerialDilute"} or draws_volume
