"""L06: whether the physical state of a material allows what is done with it, and whether the action can change it."""

from collections.abc import Iterator

from simulation.checker.findings import Decided, Findings, error_finding, require, undecided_finding
from simulation.checker.reading import families, flows
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.words import ADHERENT, FLUID, FROZEN, FROZEN_CONDITIONS, SOLID, word_set

# Actions that accept a frozen material.
_ACCEPTS_FROZEN = word_set(
    "Storage Wait Incubate CellCultureIncubate Lyophilize FlashFreeze FreezeCells Discard ImageSample VisualInspection MeasureWeight "
    "Thermocycler Microwave Autoclave SeparateWells ManifestMaterials Grind Desiccate DryingOven"
)
_NEEDS_LIQUID = word_set(
    "MeasurepH MeasureConductivity MeasureDissolvedOxygen MeasureOsmolality MeasureSurfaceTension MeasureViscosity HPLC "
    "MeasureRefractiveIndex DynamicFoamAnalysis CyclicVoltammetry FlowCytometry CellCounter CoulterCount "
    "CountLiquidParticles NucleicAcidQuantification Degas"
)
_NEEDS_SOLID = word_set("Grind MeasureMeltingPoint MeasureCount")
# Actions that need cells in suspension, not attached to their vessel.
_NEEDS_SUSPENSION = word_set("FlowCytometry CellCounter CoulterCount Aliquot SerialDilute")
# Actions that may melt or freeze a material, dry it, or dissolve it.
_MELTS = word_set(
    "Incubate Thermocycler Autoclave Microwave Wait Storage DryingOven MeasureMeltingPoint CellCultureIncubate"
)
_DRIES = _MELTS | word_set(
    "Lyophilize Desiccate Evaporate Filter Aspirate Combine ApplyMagnet SolidPhaseExtraction Grind FlashFreeze"
)
_DISSOLVES = _MELTS | word_set(
    "Resuspend Dilute FillToVolume Transfer Aliquot Combine AcousticLiquidHandling AdjustpH Dialysis AttemptDNAExtraction Wash Mix "
    "SolidPhaseExtraction SerialDilute"
)
_DRAWS_LIQUID = (families.MOVE, families.ADD, families.CONSUME, families.COMBINE, families.SERIAL)
# Solvents that do not freeze at -80 °C.
_STAYS_LIQUID = word_set("ethanol methanol acetone isopropanol hexane chloroform toluene ether acetonitrile")


def check_physical_states(transition: Transition) -> Findings:
    """L06: yield an error if a material's state does not fit the action, or if a material changes state by itself."""
    for view in _iter_handled_materials(transition):
        yield from _check_state(transition, view)
    for before, after in transition.list_kept_pairs():
        if before.phase and after.phase:
            yield from _check_phase_change(transition, before, after)
    for output in transition.usable_outputs:
        yield from _check_freezing(transition, output)
    for fill in flows.trace_liquids(transition).fills:
        contents = [part.source.phase for part in fill.parts if not part.source.is_empty_vessel]
        if fill.output.phase == SOLID and contents and all(phase in FLUID for phase in contents):
            text = f"{fill.output.name} is a solid, but it was made of liquids only"
            yield error_finding("L06", fill.output.name, "a liquid", "a solid", text)
    yield from _check_solid_portions(transition)
    for output in flows.iter_new_outputs(transition) if transition.family == families.SERIAL else ():
        if output.phase in (SOLID, FROZEN):
            text = f"{output.name} is {output.phase} immediately after dilution"
            yield error_finding("L06", output.name, "a liquid", output.phase, text)


def _iter_handled_materials(transition: Transition) -> Iterator[MaterialView]:
    """Yield the materials that the action pipettes, stirs or measures, without vessels and destinations."""
    if transition.family == families.MOVE:
        source = flows.find_source(transition)
        yield from [source] if source is not None else []
    elif transition.action not in _ACCEPTS_FROZEN:
        yield from (view for view in transition.inputs if not view.is_empty_vessel)


def _check_state(transition: Transition, view: MaterialView) -> Findings:
    name, phase, action = view.name, view.phase, transition.action
    if view.is_frozen is None:
        yield undecided_finding("L06", name, "whether it is frozen is not known")
    elif action not in _ACCEPTS_FROZEN:
        text = f"{name} is frozen at {view.condition} and was used without thawing"
        yield from require("L06", not view.is_frozen, name, "thawed", f"frozen at {view.condition}", text)
    draws_volume = transition.family == families.MOVE and transition.parameters.find_moved_volume() is not None
    if phase == ADHERENT and (action in _NEEDS_SUSPENSION or (action == "Transfer" and draws_volume)):
        text = f"the cells of {name} are attached, but {action} needs them in suspension"
        yield error_finding("L06", name, "cells in suspension", "attached cells", text)
    if phase == SOLID and (action in _NEEDS_LIQUID or draws_volume):
        yield error_finding("L06", name, "a liquid", "a solid", f"{name} is solid, but {action} needs a liquid")
    if phase in FLUID and action in _NEEDS_SOLID:
        yield error_finding("L06", name, "a solid", f"a {phase}", f"{name} is {phase}, but {action} needs a solid")


def _check_phase_change(transition: Transition, before: MaterialView, after: MaterialView) -> Findings:
    """Yield an error if a liquid becomes solid, or a solid becomes liquid, in an action that cannot cause this."""
    yield Decided("L06")
    action, wet = transition.action, (*FLUID, ADHERENT)
    if before.phase in wet and after.phase == SOLID and action not in _DRIES:
        text = f"{after.name} was {before.phase} and is {after.phase} after {action}, which cannot dry it"
        yield error_finding("L06", after.name, before.phase, after.phase, text)
    if before.phase == SOLID and after.phase in wet and action not in _DISSOLVES:
        text = f"{after.name} was solid and is {after.phase} after {action}, which cannot dissolve it"
        yield error_finding("L06", after.name, before.phase, after.phase, text)


def _check_freezing(transition: Transition, output: MaterialView) -> Findings:
    """Yield an error if a material cannot be frozen, or if a watery liquid stays liquid when put into the deep cold."""
    name, before = output.name, transition.find_input(output)
    if output.phase == FROZEN:
        was_frozen = before is not None and (before.phase == FROZEN or before.condition in FROZEN_CONDITIONS)
        # On ice or in the fridge a material may be frozen if it was not liquid there before.
        was_liquid_there = before is not None and before.condition == output.condition and before.phase in FLUID
        may_be_frozen = output.condition in ("ice", "4C") and not was_liquid_there
        is_warm = output.condition and output.condition not in FROZEN_CONDITIONS
        if is_warm and not was_frozen and not may_be_frozen:
            text = f"{name} is frozen at {output.condition}, but nothing froze it"
            yield error_finding("L06", name, "liquid", "frozen", text)
        if before is not None and flows.has_shrunk(before, output) and transition.family in _DRAWS_LIQUID:
            text = f"{name} is frozen, although a liquid was drawn from it in this step"
            yield error_finding("L06", name, "liquid", "frozen", text)
    # An input that was already liquid in the cold is an error of an earlier step.
    was_there = before is not None and before.condition == output.condition
    stays_liquid = was_there or output.all_words & _STAYS_LIQUID
    if output.phase in FLUID and output.condition in ("-80C", "-196C", "dry_ice") and not stays_liquid:
        yield error_finding("L06", name, "frozen", output.phase, f"{name} is {output.phase} at {output.condition}")


def _check_solid_portions(transition: Transition) -> Findings:
    """Yield an error if a portion or the remainder of a dry solid is liquid."""
    source = flows.find_source(transition) if transition.family == families.MOVE else None
    if source is None or source.phase != SOLID:
        return
    for view in transition.usable_outputs:
        before = transition.find_input(view)
        if before is None or before is source or before.is_empty_vessel:
            text = f"{view.name} is {view.phase}, but {source.name} is solid and nothing dissolved it"
            yield from require("L06", view.phase not in FLUID, view.name, "a solid", view.phase, text)
