"""L06: whether the physical state of a material allows what is done with it."""

from collections.abc import Iterator

from simulation.checker.findings import Decided, Findings, error_finding, undecided_finding
from simulation.checker.materials import phase_changes
from simulation.checker.reading import families, flows, roles, vocabulary
from simulation.checker.reading.material_view import MaterialView
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.words import word_set

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
        yield from phase_changes.check_phase_change(transition, before, after)
    for output in transition.usable_outputs:
        yield from phase_changes.check_freezing(transition, output)
    for fill in flows.trace_liquids(transition).fills:
        all_liquid = all(part.source.phase in vocabulary.FLUID or part.source.is_empty_vessel for part in fill.parts)
        if (
            all_liquid
            and fill.output.phase == vocabulary.SOLID
            and any(part.source.phase in vocabulary.FLUID for part in fill.parts)
        ):
            text = f"{fill.output.name} is a solid, but it was made of liquids only"
            yield error_finding("L06", fill.output.name, "a liquid", "a solid", text)
    yield from phase_changes.check_solid_portions(transition)
    if transition.family == families.SERIAL:
        yield from phase_changes.check_dilution_phases(transition)


def _iter_handled_materials(transition: Transition) -> Iterator[MaterialView]:
    """Yield the materials that the action pipettes, stirs or measures, without vessels and destinations."""
    if transition.family == families.MOVE:
        source = roles.find_source(transition)
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
    if view.phase == vocabulary.ADHERENT and _needs_suspension(transition):
        yield error_finding("L06", view.name, "cells in suspension", "attached cells",
                    f"the cells of {view.name} are attached, but {transition.action} needs them in suspension")  # fmt: skip
    if view.phase == vocabulary.SOLID and _needs_liquid(transition):
        yield error_finding(
            "L06", view.name, "a liquid", "a solid", f"{view.name} is solid, but {transition.action} needs a liquid"
        )
    if view.phase in vocabulary.FLUID and transition.action in _NEEDS_SOLID:
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
