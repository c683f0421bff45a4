"""Separating the contents of a vessel: supernatants, extracts, and what a membrane or magnet holds back.

Where a component goes on a sorbent or through a membrane is unknown unless the experiment declares it.
"""

import re
from collections.abc import Collection
from dataclasses import replace
from decimal import Decimal

from simulation.offline.action_context import ActionContext, handles
from simulation.offline.declarations import apply_declared_changes, list_declared_products
from simulation.offline.ledger import ATTACHED, CELLS, ONE, PARTICLES, VOLUME, ZERO, Component, Contents, round_to_grain
from simulation.offline.vessels import LIQUID_PROPERTIES, Phase, RefusalError, Vessel

_UNIT_FORCE = Decimal("1.118E-6")  # x g at a radius of 1 mm and 1 rpm: (2 pi / 60)^2 / 9.81 m/s2 / 1000
_LEAST_FORCE = 100  # x g; the least force at which cells and particles settle
# The largest force in x g that a container withstands, by a word in its description. The first match counts, so special
# words go first.
_FORCE_LIMITS = (
    ("ultracentrifuge", 200_000), ("glass", 3_000), ("plate", 4_000), ("well", 4_000), ("bottle", 10_000),
    ("2 ml", 21_000), ("1.5 ml", 21_000), ("0.5 ml", 21_000), ("0.2 ml", 21_000), ("micro", 21_000),
    ("cryo", 12_000), ("vial", 3_000), ("tube", 12_000),
)  # fmt: skip
_UNSPINNABLE = ("dish", "culture flask", "volumetric flask", "erlenmeyer", "beaker", "crucible")

# Largest volume in µL, and the tube that DNA is eluted into.
_ELUTION_TUBES = (
    (Decimal(1500), {"container": "1.5 mL microcentrifuge tube, polypropylene", "container_capacity": "1.5 mL"}),
    (Decimal(15_000), {"container": "15 mL centrifuge tube, polypropylene", "container_capacity": "15 mL"}),
)

_FILM = (2.0, 5.0)  # µL
_LEAST_CARRIED = Decimal("0.001")  # share of an amount that a film still carries over
_LEAST_AMOUNT = Decimal("1E-9")  # in the base unit of the dimension

_Waste = list[tuple[Contents, Vessel]]  # contents and the vessel that they come from


@handles("aspirate", "Liquid and what is dissolved in it left in proportion; cells stayed.")
def aspirate_supernatant(context: ActionContext) -> None:
    """Aspirate supernatants. Those to be kept go into new containers from the supply, or else like the sample's."""
    removed: _Waste = []
    residual = context.get_number("residual_volume")
    for vessel in context.get_changeable_samples():
        volume = context.values["volume"]
        if volume is None and residual:
            volume = max(ZERO, vessel.get_volume() - residual)
        taken = _take_liquid(vessel, volume)
        if not taken.volume:
            raise RefusalError(f"short of volume: {vessel.name} has no supernatant left")
        if context.values["keep_supernatant"]:
            _collect(context, vessel, taken, f"Supernatant of {vessel.name}")
        else:
            removed.append((taken, vessel))
    if removed:
        context.store_waste("Waste from Aspirate", removed)


@handles("wash", "Each rinse took the liquid off; cells stayed; the replacement volume is what is on them now.")
def wash_cells(context: ActionContext) -> None:
    """Rinse what is attached, or move the insert that it is attached to into a fresh vessel, and pour fresh medium on.

    A film of 2 to 5 µL stays on the bottom each time. It dilutes what comes next, and carries over what is dissolved in it.
    """
    medium, fresh = context.get_selected_vessel("wash_medium"), context.get_selected_vessel("replacement_medium")
    box = context.get_container_supply() if context.values["fresh_vessels"] else None
    removed: _Waste = []
    for vessel in context.get_changeable_samples(medium, fresh):
        film = _Film(vessel, _draw_film_volume(context, vessel), fresh.contents)
        removed.append((film.take_rest(), vessel))
        for _ in range(context.get_whole_number("washes")):
            vessel.pour_in(medium.draw_volume(context.get_number("wash_volume")), medium)
            removed.append((film.take_rest(), vessel))
        vessel = _move_insert(context, vessel, box) if box else vessel
        vessel.pour_in(fresh.draw_volume(context.get_number("replacement_volume")), fresh)
        if not box:
            vessel.contents = film.dilute(vessel.contents)
        if "medium" in vessel.properties:
            vessel.properties["medium"] = str(fresh.properties.get("medium") or fresh.name)
    context.store_waste("Waste from Wash", removed)
    context.new_vessels[-1].sources.setdefault(medium.barcode, (None, "volume"))


def _draw_film_volume(context: ActionContext, vessel: Vessel) -> Decimal:
    """Return the volume in µL that aspiration leaves in a vessel: 2 to 5 µL, as data sheets of plate washers state it."""
    return Decimal(str(round(context.create_rng(vessel, "film").uniform(*_FILM), 2)))


class _Film:
    """The liquid that stays in a vessel when all of it is taken off.

    In the books all of the liquid leaves, as on the display of a washer. What is dissolved in the film stays there, unless the
    replacement contains the same: then it only deviates from the books, as the volume does.
    """

    def __init__(self, vessel: Vessel, volume: Decimal, replacement: Contents) -> None:
        self.vessel, self.volume, self.replacement = vessel, volume, replacement
        self._highest: dict[str, Decimal] = {}  # amount of each component before it was diluted
        self._carried: dict[str, Decimal] = {}  # amount of each component of the replacement that is in the film

    def take_rest(self) -> Contents:
        """Remove and return the liquid without what stays in the film."""
        before = self.vessel.get_volume()
        taken = _take_liquid(self.vessel)
        if not taken.volume:
            return taken
        share, staying = min(ONE, self.volume / before), {}
        for name, part in taken.components.items():
            self._highest[name] = max(self._highest.get(name, ZERO), part.amount or ZERO)
            in_film = round_to_grain((part.amount or ZERO) * share)
            if name in self.replacement.components:
                self._carried[name] = in_film
            # A smaller share has no effect.
            elif in_film >= max(self._highest[name] * _LEAST_CARRIED, _LEAST_AMOUNT):
                # Nobody labels a trace.
                staying[name] = part._replace(amount=in_film, known=False, named=False)
        film = Contents(staying, {}, ZERO, None, taken.deviations)
        self.vessel.contents = self.vessel.contents + film
        for name, part in staying.items():
            whole = taken.components[name]
            taken = taken.with_component(name, whole._replace(amount=(whole.amount or ZERO) - (part.amount or ZERO)))
        return taken

    def dilute(self, contents: Contents) -> Contents:
        """Return contents that were poured into the film, with its volume and the carried amounts as deviations."""
        volume = contents.volume
        if not volume:
            return contents
        for name, amount in self._carried.items():
            if booked := contents.get_amount(name):
                contents = contents.with_deviation(name, contents.deviations.get(name, ZERO) + amount / booked)
        return contents.with_deviation(VOLUME, contents.deviations.get(VOLUME, ZERO) + self.volume / volume)


def _move_insert(context: ActionContext, vessel: Vessel, box: Vessel) -> Vessel:
    """Move the insert of a vessel, such as a chip, with what is attached to it. What is attached to the vessel itself stays."""
    if "insert" not in vessel.properties:
        raise RefusalError(f"no insert: {vessel.name} contains no chip or other insert that could be moved")
    moving = context.truth.get("on_insert", ())
    staying = [name for name in vessel.contents.components if name not in moving]
    moved, vessel.contents = vessel.contents.split_share(ONE, staying)
    fresh_vessel = context.create_vessel(box, f"{vessel.name}, moved")
    fresh_vessel.pour_in(moved, vessel)
    fresh_vessel.properties["insert"] = vessel.properties["insert"]
    vessel.properties["insert"] = "moved to a fresh vessel"
    vessel.used_up = True
    return fresh_vessel


@handles("centrifuge")
def centrifuge_samples(context: ActionContext) -> None:
    given_force, speed = context.values["force"], context.values["speed"]
    if (given_force is None) == (speed is None):
        raise RefusalError("critically unclear: a spin needs its force or its speed, and not both")
    force = Decimal(given_force or 0)
    if speed is not None:
        # In x g: 1.118e-6 r n^2, with the radius r in mm and n in revolutions per minute.
        force = _UNIT_FORCE * context.get_number("rotor_radius") * Decimal(speed) ** 2
    for vessel in context.get_changeable_samples():
        if vessel.phase == Phase.FROZEN:
            vessel.require_liquid("spun")
        words = vessel.container.lower()
        if any(word in words for word in _UNSPINNABLE):
            raise RefusalError(f"wrong format: {vessel.name} is in {vessel.container}, which fits no rotor")
        # The pattern refuses a digit or point before the word: "2 ml" must not match "12 ml" or "0.2 ml".
        limit = next((maximum for word, maximum in _FORCE_LIMITS if re.search(rf"(?<![0-9.]){word}", words)), None)
        if limit is not None and force > limit:
            most = f"a {vessel.container} stands {limit} x g at most"
            raise RefusalError(f"too much force: {force.normalize():f} x g, {most} ({vessel.name})")
        heavy = vessel.contents.list_components_of_kind(CELLS, PARTICLES)
        if vessel.phase in (Phase.LIQUID, Phase.SUSPENSION) and heavy and force >= _LEAST_FORCE:
            vessel.phase = Phase.SEDIMENTED
        settled = vessel.phase == Phase.SEDIMENTED
        appearance = "a pellet under the liquid" if settled else "no pellet to be seen"
        context.record_observation(context.describe_run(vessel), "visual", appearance)
    context.reasoning = f"Cells and particles come down from {_LEAST_FORCE} x g; nothing else is moved."


@handles("extract_dna", "DNA by the yield the experiment declares, eluted in the stated volume.")
def extract_dna(context: ActionContext) -> None:
    """Replace each sample with the declared products in the elution volume. Everything else is lost."""
    volume = context.get_number("elution_volume")
    for vessel in context.get_changeable_samples():
        if vessel.phase == Phase.FROZEN:
            vessel.require_liquid("lysed")
        if vessel.phase in (Phase.EMPTY, Phase.CONSUMABLE, Phase.PLATE):
            raise RefusalError(f"wrong phase: {vessel.name} is {vessel.phase}; there is nothing to extract DNA from")
        vessel.phase = Phase.LIQUID
        apply_declared_changes(context, vessel)
        products = list_declared_products(context)
        extract = {name: part for name, part in vessel.contents.components.items() if name in products}
        vessel.contents = Contents(extract, vessel.contents.origins, volume)
        vessel.name = context.reserve_name(f"DNA extract of {vessel.name}")
        vessel.drop_properties("mass", "medium", "cell type", "well", *LIQUID_PROPERTIES)
        vessel.properties |= next(tube for largest, tube in _ELUTION_TUBES if volume <= largest)
        # The extract is in another tube than the sample was, whose empty mass is unknown.
        vessel.tare = None


@handles(
    "solid_phase_extraction",
    "All elution buffer came through; only what the experiment declares to be eluted has a known amount.",
)
def extract_on_solid_phase(context: ActionContext) -> None:
    """Extract each sample. The extract contains the declared products; where other components go is unknown."""
    wash, elution = context.get_selected_vessel("wash_buffer"), context.get_selected_vessel("elution_buffer")
    box, conditioning = context.get_container_supply(), context.find_selected_vessel("conditioning_solvent")
    samples = context.get_samples(wash, elution, conditioning)
    waste: _Waste = []
    for number, vessel in enumerate(samples, start=1):
        all_of_it = context.values["sample_volume"] is None
        loaded = vessel.draw_volume(vessel.get_volume() if all_of_it else context.get_number("sample_volume"))
        # Declared reactions are applied to a copy, so that they change what was loaded, not what is left in the vessel.
        column = replace(vessel, contents=loaded)
        apply_declared_changes(context, column)
        declared = list_declared_products(context)
        products = {name: part for name, part in column.contents.components.items() if name in declared}
        unknown = _mark_unknown(column.contents, declared)
        half = {key: round_to_grain(share / 2) for key, share in loaded.origins.items()}
        other_half = {key: share - half[key] for key, share in loaded.origins.items()}
        eluted = Contents({**unknown, **products}, half, ZERO, None)
        run_off = Contents(unknown, other_half, loaded.volume, None)
        extract = context.create_vessel(box, context.format_label(number, len(samples), f"Extract of {vessel.name}"))
        elution_volume = context.get_number("elution_volume") * context.get_whole_number("elutions")
        extract.pour_in(elution.draw_volume(elution_volume), elution)
        extract.pour_in(eluted, vessel)
        # The extract descends from the loaded volume, although only substances without volume are poured.
        extract.sources.add_amount(vessel.barcode, loaded.volume)
        extract.phase = Phase.LIQUID
        wash_volume = context.get_number("wash_volume") * context.get_whole_number("washes")
        waste += [(run_off, vessel), (wash.draw_volume(wash_volume), wash)]
        if conditioning:
            waste.append((conditioning.draw_volume(context.get_number("conditioning_volume")), conditioning))
    context.store_waste("Waste from SolidPhaseExtraction", waste)


@handles("dialyse", "Volumes stay; what is dissolved inside is unknown unless the experiment declares it.")
def dialyse_samples(context: ActionContext) -> None:
    """Dialyse each sample. Volume, cells and particles stay. Dissolved amounts become unknown unless declared."""
    buffer, used_buffer = context.get_selected_vessel("dialysis_buffer"), []
    baths = context.get_whole_number("buffer_changes") + 1
    for vessel in context.get_changeable_samples(buffer):
        vessel.require_liquid("dialysed")
        bath = buffer.draw_volume(context.get_number("buffer_volume") * baths)
        apply_declared_changes(context, vessel)
        kept = vessel.contents.list_components_of_kind(CELLS, PARTICLES, ATTACHED)
        names_staying = {*kept, *list_declared_products(context)}
        crossing = {**_mark_unknown(vessel.contents, names_staying), **_mark_unknown(bath, ())}
        staying = {name: part for name, part in vessel.contents.components.items() if name in names_staying}
        # Components of bath and sample are on both sides afterwards, in unknown amounts.
        vessel.contents = replace(vessel.contents, components={**crossing, **staying}, mass=None)
        used_buffer.append((replace(bath, components=crossing), buffer))
        vessel.sources.add_amount(buffer.barcode)
        vessel.drop_properties(*LIQUID_PROPERTIES)
        against = f"{baths} x {context.get_written_setting('buffer_volume')} of {buffer.name}"
        vessel.properties["dialysed against"] = against[:300]
    context.store_waste("Used dialysis buffer", used_buffer)


@handles(
    "apply_magnet",
    "Beads stayed with all that is counted as bound to them; every other component left with the liquid.",
)
def apply_magnet(context: ActionContext) -> None:
    """Hold particles whose name contains "bead" at the wall. Bound components elute if the experiment declares it."""
    wash, elution = context.find_selected_vessel("wash_buffer"), context.find_selected_vessel("elution_buffer")
    if not context.values["collect_supernatant"] and (wash or elution):
        raise RefusalError("contradiction: washing and elution take the liquid off; let it be collected")
    samples = context.get_changeable_samples(wash, elution)
    rinses: _Waste = []
    for number, vessel in enumerate(samples, start=1):
        vessel.require_liquid("put to a magnet")
        if not _list_beads(vessel):
            raise RefusalError(f"no magnetic beads: nothing in {vessel.name} is drawn to a magnet")
        if not context.values["collect_supernatant"]:
            vessel.phase = Phase.SEDIMENTED
            continue
        _collect(context, vessel, _draw_off_beads(vessel), f"Supernatant of {vessel.name}")
        if wash:
            for _ in range(context.get_whole_number("washes")):
                vessel.pour_in(wash.draw_volume(context.get_number("wash_volume")), wash)
                rinses.append((_draw_off_beads(vessel), vessel))
        if elution:
            vessel.pour_in(elution.draw_volume(context.get_number("elution_volume")), elution)
            apply_declared_changes(context, vessel)
            name = context.format_label(number, len(samples), f"Eluate of {vessel.name}")
            _collect(context, vessel, _draw_off_beads(vessel), name)
    if rinses:
        context.store_waste("Waste from ApplyMagnet", rinses)


def _collect(context: ActionContext, vessel: Vessel, contents: Contents, name: str) -> None:
    """Pour what was taken out of a vessel into a new container from the supply, or else like the vessel's own."""
    collected = context.create_vessel(context.find_container_supply() or vessel, name)
    collected.pour_in(contents, vessel)
    collected.phase = choose_phase(collected.contents)


def choose_phase(contents: Contents) -> str:
    return Phase.SUSPENSION if contents.list_components_of_kind(CELLS, PARTICLES) else Phase.LIQUID


def _take_liquid(vessel: Vessel, volume: Decimal | None = None) -> Contents:
    """Remove and return the liquid over a pellet or attached cells, or all that is not bound to the vessel itself."""
    attached = vessel.contents.list_components_of_kind(ATTACHED)
    if vessel.phase not in (Phase.LIQUID, Phase.SUSPENSION) or not attached:
        return vessel.take_supernatant(volume)
    requested = vessel.get_volume() if volume is None else volume
    return vessel.draw_volume(requested) if requested else Contents()


def _mark_unknown(contents: Contents, excluded: Collection[str]) -> dict[str, Component]:
    parts = contents.components.items()
    return {name: part.change_amount(None) for name, part in parts if name not in excluded}


def _list_beads(vessel: Vessel) -> tuple[str, ...]:
    return tuple(name for name in vessel.contents.list_components_of_kind(PARTICLES) if "bead" in name.lower())


def _draw_off_beads(vessel: Vessel) -> Contents:
    """Remove and return all liquid with every component that is neither a bead nor bound to the vessel."""
    volume = vessel.get_volume()
    if volume == 0:
        raise RefusalError(f"short of volume: there is no liquid over the beads of {vessel.name}")
    bound = (*_list_beads(vessel), *vessel.contents.list_components_of_kind(ATTACHED))
    removed, vessel.contents = vessel.contents.take_volume(volume, bound)
    vessel.phase = Phase.PELLET
    return removed
