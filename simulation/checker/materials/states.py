"""L06: what can be done with a material in its physical state."""

from collections.abc import Iterator

from simulation.checker.findings import Ran, Said, error, undecided
from simulation.checker.materials import matter
from simulation.checker.reading import families, flows, roles, terms
from simulation.checker.reading.reading import View
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.words import listed

# Actions that accept a frozen material.
_FROZEN_FINE = listed(
    "Storage Wait Incubate CellCultureIncubate Lyophilize FlashFreeze FreezeCells Discard ImageSample VisualInspection MeasureWeight "
    "Thermocycler Microwave Autoclave SeparateWells ManifestMaterials Grind Desiccate DryingOven"
)
_NEEDS_LIQUID = listed(
    "MeasurepH MeasureConductivity MeasureDissolvedOxygen MeasureOsmolality MeasureSurfaceTension MeasureViscosity HPLC "
    "MeasureRefractiveIndex DynamicFoamAnalysis CyclicVoltammetry FlowCytometry CellCounter CoulterCount "
    "CountLiquidParticles NucleicAcidQuantification Degas Aliquot SerialDilute AcousticLiquidHandling"
)
_NEEDS_SOLID = listed("Grind MeasureMeltingPoint MeasureCount")
# Actions that need cells in suspension, not attached to their vessel.
_NEEDS_LOOSE = listed("FlowCytometry CellCounter CoulterCount Aliquot SerialDilute")


def physical(transition: Transition) -> Said:
    """L06: nothing frozen, attached or dry is pipetted or measured as a liquid, and no material changes state by itself."""
    if not transition.success:
        return
    for view in _handled(transition):
        yield from _state(transition, view)
    for before, after in transition.pairs():
        yield from matter.changed(transition, before, after)
    for output in transition.kept:
        yield from matter.frozen_warm(transition, output)
    for fill in flows.of(transition).fills:
        all_liquid = all(part.source.phase in terms.FLUID or part.source.supply for part in fill.parts)
        if (
            all_liquid
            and fill.output.phase == terms.SOLID
            and any(part.source.phase in terms.FLUID for part in fill.parts)
        ):
            text = f"{fill.output.name} is a solid, but it was made of liquids only"
            yield error("L06", fill.output.name, "a liquid", "a solid", text)
    yield from matter.portions(transition)
    if transition.family == families.SERIAL:
        yield from matter.solid_rungs(transition)


def _handled(transition: Transition) -> Iterator[View]:
    """Yield what the action pipettes, stirs or measures, without vessels and destinations."""
    if transition.family == families.MOVE:
        source = roles.source_of(transition)
        yield from [source] if source is not None else []
    elif transition.action not in _FROZEN_FINE:
        yield from (view for view in transition.inputs if not view.supply)


def _state(transition: Transition, view: View) -> Said:
    frozen = view.frozen
    if frozen is None:
        yield undecided("L06", view.name, "whether it is frozen is not known")
    elif transition.action not in _FROZEN_FINE:
        yield Ran("L06")
        if frozen:
            yield error("L06", view.name, "thawed", f"frozen at {view.condition}",
                        f"{view.name} is frozen at {view.condition} and was used without thawing")  # fmt: skip
    if view.phase == terms.ADHERENT and _loose(transition):
        yield error("L06", view.name, "cells in suspension", "attached cells",
                    f"the cells of {view.name} are attached, but {transition.action} needs them in suspension")  # fmt: skip
    if view.phase == terms.SOLID and _wet(transition):
        yield error(
            "L06", view.name, "a liquid", "a solid", f"{view.name} is solid, but {transition.action} needs a liquid"
        )
    if view.phase in terms.FLUID and transition.action in _NEEDS_SOLID:
        yield error(
            "L06",
            view.name,
            "a solid",
            f"a {view.phase}",
            f"{view.name} is {view.phase}, but {transition.action} needs a solid",
        )


def _loose(transition: Transition) -> bool:
    return transition.action in _NEEDS_LOOSE or (
        transition.action == "Transfer" and transition.parameters.moved() is not None
    )


def _wet(transition: Transition) -> bool:
    """Return whether a liquid is needed: by the instrument, or because a volume was drawn."""
    draws_volume = transition.family == families.MOVE and transition.parameters.moved() is not None
    return transition.action in _NEEDS_LIQUID - {"Aliquot", "AcousticLiquidHandling", "SerialDilute"} or draws_volume
