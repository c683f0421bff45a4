"""Filtering: filtrates, residues, and the rinses of residues.

A filter holds back the components larger than its pores. A residue holds back some of the liquid that it came from until it is
rinsed, and a rinse without electrolyte carries away some of a precipitate that is declared to become colloidal in it.
"""

from dataclasses import replace
from decimal import Decimal

from simulation.lab import quantities
from simulation.offline.action_context import ActionContext, handles
from simulation.offline.handlers.dryness import DAMP
from simulation.offline.handlers.separations import choose_phase
from simulation.offline.ledger import CELLS, ONE, PARTICLES, ZERO, Contents, round_to_grain
from simulation.offline.vessels import LIQUID_PROPERTIES, Phase, RefusalError, Vessel, format_volume

# In mm. A filter with pores of this size or smaller retains cells or particles, unless the experiment declares another
# size for them.
_CELL_SIZE, _PARTICLE_SIZE = Decimal("0.005"), Decimal("0.001")
_RESIDUE_CONTAINERS = ("crucible", "filter", "weighing")
_HELD_BACK = Decimal(500)  # µL of liquid between the grains of a residue and in the filter plate, until it is rinsed

_Waste = list[tuple[Contents, Vessel]]  # contents and the vessel that they come from


@handles(
    "filter", "The whole volume passed the filter; cells, particles and what is declared larger than the pores stayed."
)
def filter_samples(context: ActionContext) -> None:
    """Filter each sample. First runnings become waste, and so do residues and their rinses unless they are kept."""
    wash, keeps = context.find_selected_vessel("residue_wash"), context.values["keep_residue"]
    # If residues are kept, single empty containers receive them.
    single = [vessel for vessel in context.vessels.values() if vessel.phase == Phase.EMPTY and not vessel.unlimited]
    crucibles = single if keeps else []
    samples = context.get_samples(*crucibles, wash)
    waste: _Waste = []
    last_rinses: list[tuple[Vessel, _Waste]] = []  # by sample, as far as they are kept
    boxes = [box for box in context.list_container_supplies() if not _is_residue_container(box)]
    box = boxes[0] if boxes else context.get_container_supply()
    for number, vessel in enumerate(samples, start=1):
        poured_volume = context.values["volume"]
        if poured_volume is None:
            # The whole sample, stirred so that sediment is included.
            vessel.phase = Phase.SUSPENSION if vessel.phase == Phase.SEDIMENTED else vessel.phase
            poured_volume = vessel.get_volume()
        poured = vessel.draw_volume(poured_volume)
        # Everything moves except what is retained, so the filtrate has the full volume.
        passed, retained = poured.split_share(ONE, _list_retained_components(context, poured))
        first, rest = _split_first_runnings(passed, context.get_number("discard_first"))
        waste += [(first, vessel)]
        if keeps and wash:
            earlier, last, retained, rest = _rinse_residue(context, vessel, retained, rest, wash)
            waste += earlier
            last_rinses.append((vessel, last))
        filtrate = context.create_vessel(box, context.format_label(number, len(samples), f"Filtrate of {vessel.name}"))
        filtrate.pour_in(rest, vessel)
        filtrate.phase = choose_phase(rest)
        through = f"{context.get_written_setting('pore_size')} {context.get_written_setting('membrane')}"
        filtrate.properties["filtered through"] = through
        if keeps:
            crucible = crucibles[number - 1] if number <= len(crucibles) else None
            _collect_residue(context, vessel, retained, passed.volume, crucible, wash)
        else:
            waste += [(retained, vessel)]
    for vessel, last in last_rinses:
        if context.values["keep_last_rinse"]:
            _keep_last_rinse(context, vessel, last, box)
        else:
            waste += last
    if waste := [(part, vessel) for part, vessel in waste if part.volume or part.components]:
        context.store_waste("Used filters and first runnings", waste)


def _is_residue_container(box: Vessel) -> bool:
    words = f"{box.name} {box.container}".lower()
    return any(word in words for word in _RESIDUE_CONTAINERS)


def _collect_residue(
    context: ActionContext,
    vessel: Vessel,
    retained: Contents,
    poured: Decimal | None,
    crucible: Vessel | None,
    wash: Vessel | None,
) -> None:
    """Put the residue of one filter into a crucible. A crucible in which nothing was retained stays empty, but damp."""
    if crucible is None:
        boxes = context.list_container_supplies()
        box = next(filter(_is_residue_container, boxes), boxes[0])
        crucible = context.create_vessel(box, f"Residue of {vessel.name}")
    # The bulk mass is that of the whole sample, not of what stayed on the filter.
    crucible.pour_in(replace(retained, mass=None), vessel)
    crucible.sources.add_amount(vessel.barcode, poured)
    crucible.phase = "solid" if retained.components else Phase.EMPTY
    crucible.drop_properties("medium", *LIQUID_PROPERTIES)
    crucible.properties["moisture"] = DAMP
    if wash is not None:
        crucible.properties["rinsed with"] = _describe_rinses(context, wash)


def _describe_rinses(context: ActionContext, wash: Vessel) -> str:
    volume, rinses = context.get_number("residue_wash_volume"), context.get_whole_number("residue_washes")
    return f"{rinses} x {format_volume(volume)} of {wash.name}"


def _rinse_residue(
    context: ActionContext, vessel: Vessel, retained: Contents, rest: Contents, wash: Vessel
) -> tuple[_Waste, _Waste, Contents, Contents]:
    """Rinse one residue. Return (earlier rinses, last rinse with what it carries, residue left, filtrate left).

    The residue holds back some of the filtrate. Each rinse mixes with it, so the last one carries a rest of it, which comes out of
    the filtrate here.
    """
    if context.values["residue_wash_volume"] is None:
        raise RefusalError(f"critically unclear: how much of {wash.name} each residue is rinsed with")
    volume, rinses = context.get_number("residue_wash_volume"), context.get_whole_number("residue_washes")
    earlier: _Waste = [(wash.draw_volume(volume * (rinses - 1)), wash)] if rinses > 1 else []
    last: _Waste = [(wash.draw_volume(volume), wash)]
    is_pure = not wash.contents.components
    for _ in range(rinses if is_pure else 0):
        retained, carried_off = _carry_off(context, retained)
        last.append((carried_off, vessel))
    if context.values["keep_last_rinse"] and rest.volume:
        held_back = min(_HELD_BACK, rest.volume / 2)
        left = held_back * (held_back / (held_back + volume)) ** (rinses - 1)
        # Its volume is negligible.
        with_last, staying = rest.split_share(left / rest.volume)
        last.append((replace(with_last, volume=ZERO, mass=None), vessel))
        rest = replace(staying, volume=rest.volume, mass=rest.mass)
    return earlier, last, retained, rest


def _carry_off(context: ActionContext, retained: Contents) -> tuple[Contents, Contents]:
    """Return (residue left, what one rinse without electrolyte makes colloidal and carries through the filter)."""
    carried_off = Contents()
    for name, becomes in context.truth.get("peptised", {}).items():
        part = retained.components.get(name)
        if part is None or part.amount is None:
            continue
        lost = round_to_grain(part.amount * Decimal(becomes["share"]))
        retained = retained.with_component(name, part._replace(amount=part.amount - lost))
        carried_off = carried_off.with_component(becomes["into"], part._replace(amount=lost))
    return retained, carried_off


def _keep_last_rinse(context: ActionContext, vessel: Vessel, last: _Waste, box: Vessel) -> None:
    """Collect the last rinse of one residue in a new vessel, so that it can be tested for what should be washed out."""
    wash = last[0][1]
    washings = context.create_vessel(box, f"Last rinse of the residue of {vessel.name}")
    for contents, source in last:
        washings.pour_in(contents, source)
    washings.phase = choose_phase(washings.contents)
    washings.properties["rinse"] = f"last of {_describe_rinses(context, wash)}"


def _list_retained_components(context: ActionContext, contents: Contents) -> list[str]:
    sizes = dict.fromkeys(contents.list_components_of_kind(PARTICLES), _PARTICLE_SIZE)
    sizes |= dict.fromkeys(contents.list_components_of_kind(CELLS), _CELL_SIZE)
    for name, size in context.truth.get("retained", {}).items():
        sizes[name] = quantities.parse_quantity(size, "length").value
    return [name for name, size in sizes.items() if size >= context.get_number("pore_size")]


def _split_first_runnings(passed: Contents, discarded: Decimal) -> tuple[Contents, Contents]:
    if discarded == 0:
        return Contents(), passed
    assert passed.volume is not None, "what was drawn has a volume"
    if discarded >= passed.volume:
        passes, lost = format_volume(passed.volume), format_volume(discarded)
        raise RefusalError(f"short of volume: {passes} passes, of which {lost} is to be thrown away")
    return passed.take_volume(discarded)
