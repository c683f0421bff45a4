"""Filtering: filtrates, residues, and the rinses of residues.

A filter holds back the components larger than its pores, and some liquid: first of the sample, then, rinse by rinse, more and more
of what it is rinsed with. A vessel that is poured out keeps a film. A rinse without electrolyte carries away some of a
precipitate that is declared to become colloidal in it.
"""

from dataclasses import replace
from decimal import Context, Decimal

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
# µL of liquid that a filter holds back (hold-up volume). Syringe filters, by the volume filtered, and spin filters: data sheets
# of Millex filters of 4, 13 and 33 mm after a purge with air, and of Ultrafree-MC. Others: pores of a wet membrane (area x
# thickness x porosity: 17 and 40 cm² x 0.15 mm x 0.8), of filter paper of 11 cm (95 cm² x 0.2 mm x 0.8), of a sintered plate.
_SYRINGE_HOLD_UPS = ((Decimal(1000), Decimal(10)), (Decimal(10_000), Decimal(25)), (Decimal("Infinity"), Decimal(100)))
_HOLD_UPS = {
    "membrane disc": Decimal(200), "bottle-top filter": Decimal(500), "spin filter": Decimal(5),
    "filter crucible": Decimal(500), "filter paper": Decimal(1500),
}  # fmt: skip
_MOST_HELD_BACK = Decimal("0.5")  # share of what is filtered
# Thickness in cm of the film of water on a wall from which it has drained, and the wetted area of a cylinder as high as wide, in
# cm², of 1 mL (1.25 pi (4 / pi)^(2/3)); the area grows with the volume to the power of 2/3.
_FILM, _WETTED_AREA = Decimal("0.001"), Decimal("4.6")

_Waste = list[tuple[Contents, Vessel]]  # contents and the vessel that they come from


@handles(
    "filter",
    "All but the hold-up volume passed the filter; cells, particles and what is declared larger than the pores stayed.",
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
            # Rinses of the residue are poured through the emptied vessel.
            film = ZERO if keeps and wash else compute_film(vessel.get_volume())
            poured_volume = vessel.get_volume() - film
        poured = vessel.draw_volume(poured_volume)
        # All liquid moves, and with it everything that is not retained.
        entered, retained = poured.split_share(ONE, _list_retained_components(context, poured))
        crucible = crucibles[number - 1] if number <= len(crucibles) else None
        filter_type = "filter crucible" if crucible else context.values["filter_type"]
        held_back, passed = entered.take_volume(compute_hold_up(filter_type, poured_volume))
        first, rest = _split_first_runnings(passed, context.get_number("discard_first"))
        waste += [(first, vessel)]
        if keeps and wash:
            earlier, last, retained = _rinse_residue(context, vessel, retained, held_back, wash)
            waste += earlier
            last_rinses.append((vessel, last))
        else:
            waste.append((held_back, vessel))
        filtrate = context.create_vessel(box, context.format_label(number, len(samples), f"Filtrate of {vessel.name}"))
        filtrate.pour_in(rest, vessel)
        filtrate.phase = choose_phase(rest)
        through = f"{context.get_written_setting('pore_size')} {context.get_written_setting('membrane')}"
        filtrate.properties["filtered through"] = through
        if keeps:
            _collect_residue(context, vessel, retained, poured_volume, crucible, wash)
        else:
            waste += [(retained, vessel)]
    for vessel, last in last_rinses:
        if context.values["keep_last_rinse"]:
            _keep_last_rinse(context, vessel, last, box)
        else:
            waste += last
    if waste := [(part, vessel) for part, vessel in waste if part.volume or part.components]:
        context.store_waste("Used filters and first runnings", waste)


def compute_hold_up(filter_type: str, volume: Decimal) -> Decimal:
    """Return the volume in µL that a filter holds back of this volume."""
    syringe_filter = next(held for largest, held in _SYRINGE_HOLD_UPS if volume <= largest)
    return min(_HOLD_UPS.get(filter_type, syringe_filter), volume * _MOST_HELD_BACK)


def compute_film(volume: Decimal) -> Decimal:
    """Return the volume in µL, with one digit, that stays on the wall of a vessel from which this volume was poured."""
    film = _WETTED_AREA * _FILM * (volume / 1000) ** (Decimal(2) / 3) * 1000
    return min(Context(prec=1).plus(film), volume * _MOST_HELD_BACK)


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
    context: ActionContext, vessel: Vessel, retained: Contents, held_back: Contents, wash: Vessel
) -> tuple[_Waste, _Waste, Contents]:
    """Rinse one residue. Return (earlier rinses and what the filter holds at the end, last rinse, residue left).

    Each rinse mixes with the liquid that the filter holds back, and as much as was poured on runs through.
    """
    if context.values["residue_wash_volume"] is None:
        raise RefusalError(f"critically unclear: how much of {wash.name} each residue is rinsed with")
    volume, rinses = context.get_number("residue_wash_volume"), context.get_whole_number("residue_washes")
    assert held_back.volume is not None, "what was drawn has a volume"
    share = volume / (held_back.volume + volume)
    of_sample, of_wash = held_back, Contents()
    discarded: _Waste = []
    last: _Waste = []
    for _ in range(rinses):
        discarded += last
        sample_through, of_sample = of_sample.split_share(share)
        wash_through, of_wash = (of_wash + wash.draw_volume(volume)).split_share(share)
        last = [(wash_through, wash), (sample_through, vessel)]
        if not wash.contents.components:
            retained, carried_off = _carry_off(context, retained)
            last.append((carried_off, vessel))
    return [*discarded, (of_sample, vessel), (of_wash, wash)], last, retained


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
