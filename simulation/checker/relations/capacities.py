"""L05 and L23: what a vessel, a sorbent, a column or an instrument can take, and how densely solids can be packed.

As in `limits.py`, every limit is beyond what any product of the kind reaches.
"""

import re
from collections.abc import Iterator
from decimal import Decimal

from simulation.checker.findings import Findings, require
from simulation.checker.reading import claims, flows, units, words
from simulation.checker.reading.claims import Claim
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.words import word_set
from simulation.checker.relations.arithmetic import compile_label

_RIM = Decimal("1.15")  # factor of the nominal size of a vessel up to its rim
# g/mL, g/cm³ and kg/L are the same number; the laboratory has no unit of density.
_DENSITY_UNIT = re.compile(
    r"\b(?:g ?/ ?(?:ml|cm ?\^?3|cc|ccm)|kg ?/ ?l|g per (?:ml|cm3|millilitre|milliliter)|g cm-3)\b"
)
_SI_DENSITY_UNIT = re.compile(r"\bkg ?/ ?m\^?3\b")
_BULK = compile_label(
    r"\bbulk\b|\btapped\b|\bpoured\b|\bapparent\b|\bloose\b|\bpacked\b|\bschuttdichte\b|\bstampfdichte\b|\baparente\b|\bapparente\b"
)
_DENSITY = compile_label(r"\bdensity\b|\brho\b|ρ|\bspecific gravity\b")
_BED = compile_label(
    r"\bbed\b|\bpacked\b|\bsettled\b|\bfilling\b|\bsediment\b|\bapparent\w*|\baparente\b|\bapparente\b|\bbulk volume\b|\bpoured\b|\bheight\b|\bschutt\w*"
)
_GRAIN = compile_label(r"\bmass\b|\bbeads?\b|\bnet\b|\bpowder\b|\bgrains?\b|\bsand\b|\bsolids?\b|\bresin\b|\bamount\b")
_SPHERES = word_set("bead sphere monodisperse ball microsphere")
# Equal spheres fill at most 74 % of the space (Kepler). Grains of two sizes can fill 1 - 0.36^2 = 87 %, if the small ones fill the
# gaps of the large ones and each packs to 64 % (Furnas 1931); a third size would reach 95 %, which no powder on a bench does.
_DENSEST_SPHERES, _DENSEST_GRAINS = Decimal("0.76"), Decimal("0.91")
# Sorbents bind 1 to 10 % of their mass from water; the strongest ion exchangers about 20 %.
_SORBENT_CAPACITY = Decimal("0.3")
_SORBENT = re.compile(r"(?<![\w.])([0-9]{1,4}(?:\.[0-9]{1,2})?)\s?(mg|g)\b(?!/)")
# Silica columns bind DNA of at most: mini 0.05 mg, midi 0.5 mg, maxi 2 mg (Qiagen, Macherey-Nagel, Thermo).
_COLUMN_DNA = (("giga", 15_000), ("mega", 5_000), ("maxi", 3_000), ("midi", 750), ("column", 200))
# °C from which plastics soften or melt: the glass or melting temperatures of Polymer Handbook, rounded up.
_SOFTENS = (
    ("polystyrene", 105), ("acrylic", 115), ("plexiglas", 115), ("pmma", 115), ("pvc", 100), ("petg", 90), ("pet", 90), ("ldpe", 115),
    ("hdpe", 135), ("polyethylene", 135), ("polypropylene", 165), ("parafilm", 65), ("polycarbonate", 150), ("nylon", 220), ("wax", 75),
)  # fmt: skip
_HEATING = word_set("DryingOven Autoclave Microwave Incubate Thermocycler Evaporate Wait")
_DAMAGED = re.compile(r"\b(?:melt\w*|soft\w*|warp\w*|deform\w*|collaps\w*|bent)\b", re.IGNORECASE)
_UNDAMAGED = re.compile(
    r"\b(?:no|not|without|un)[ -]?(?:\w+ )?(?:melt\w*|soft\w*|warp\w*|deform\w*|collaps\w*|bent)\b|\bunwarped\b",
    re.IGNORECASE,
)
# Least volume in µL in which an instrument of the kind can measure: three electrodes, a foam column, a probe.
_LEAST_VOLUMES = {
    "CyclicVoltammetry": 1_000, "DynamicFoamAnalysis": 5_000, "MeasureDissolvedOxygen": 300, "MeasureConductivity": 100,
    "MeasurepH": 20, "MeasureSurfaceTension": 20,
}  # fmt: skip
# Volume in µL up to the neck of culture flasks, which are named by their area in cm².
_CULTURE_VESSELS = {"T25": 75_000, "T75": 290_000, "T150": 650_000, "T175": 850_000, "T225": 1_000_000}
_CULTURE_VESSEL = re.compile(r"\b(T-?(?:25|75|150|175|225))\b", re.IGNORECASE)
_MAX_INJECTION = Decimal(1000)  # µL; analytical loops end at 100, semi-preparative ones at 1000

_NEARLY = Decimal("0.95")  # factor of a least volume: a rounded reading is no error
# Capacity of balances in g, above the largest models on sale.
_RATED_BALANCE = compile_label(r"\bmax\w*\b|\bcapacity\b|\bup to\b|\brange\b|\blimit\b")
_BALANCES = {"microbalance": 60, "semi-micro": 320, "analytical": 520}


def check_capacities(transition: Transition) -> Findings:
    """L05: yield an error if a vessel, a sorbent, a column or an instrument takes more, less or hotter than it can."""
    for view in transition.usable_outputs:
        yield from _check_solid_fits(transition, view)
        yield from _check_culture_flask(view)
    if transition.action == "SolidPhaseExtraction":
        yield from _check_sorbent(transition)
    if transition.action == "MeasureWeight":
        yield from _check_balance(transition)
    if transition.action == "AttemptDNAExtraction":
        yield from _check_binding(transition)
    if transition.action in ("Filter", "Dialysis", "Centrifuge"):
        yield from _check_device(transition)
    if transition.action in _HEATING:
        yield from _check_softening(transition)
    if transition.family in words.MEASUREMENTS:
        yield from _check_least_volume(transition)
    yield from _check_kept_volume(transition)
    if transition.action == "HPLC":
        for leaf, amount in transition.parameters.list_amounts("volume"):
            if "injection" in leaf.word_set:
                got = units.format_value(amount.value, "volume")
                text = f"no injector can inject {got}"
                yield from require("L05", amount.value <= _MAX_INJECTION, "injection", "at most 1 mL", got, text)


def _check_culture_flask(view: MaterialView) -> Findings:
    """Yield an error if a culture flask or dish, which is named by its area, holds more than fits into it."""
    match = _CULTURE_VESSEL.search(f"{view.container} {view.name}")
    if match is None or not view.liquid_volume:
        return
    most = Decimal(_CULTURE_VESSELS[match[1].upper().replace("-", "")])
    shown = [units.format_value(value, "volume") for value in (most, view.liquid_volume)]
    text = f"{view.name} holds {shown[1]}, more than a {match[1]} flask can hold"
    yield from require("L05", view.liquid_volume <= most, view.name, f"at most {shown[0]}", shown[1], text)


def _find_density(found: list[Claim]) -> tuple[Decimal | None, bool]:
    """Return (density in g/mL, whether it is that of the bulk) of a solid, or (None, False)."""
    densities = []
    for claim in found:
        is_named = claim.matches(_DENSITY) or claim.matches(_BULK)
        scale = (
            Decimal(1)
            if _DENSITY_UNIT.search(claim.label)
            else Decimal("0.001")
            if _SI_DENSITY_UNIT.search(claim.label)
            else None
        )
        if is_named and claim.dimension == "" and scale is not None and claim.value > 0:
            densities.append((claim.value * scale, claim.matches(_BULK)))
        # ρ is the symbol of a density and of a mass concentration; nothing dissolves to 1 g/mL in a solid.
        elif claim.dimension == "mass_concentration" and claim.value > (100_000 if is_named else 1_000_000):
            densities.append((claim.value / 1_000_000, claim.matches(_BULK)))
    bulk = [value for value, is_bulk in densities if is_bulk]
    grain = [value for value, is_bulk in densities if not is_bulk]
    if bulk:
        # The tapped density is the highest.
        return max(bulk), True
    return (max(grain), False) if grain else (None, False)


def _find_mass(view: MaterialView, found: list[Claim]) -> Decimal | None:
    """Return the mass of a solid in µg, or None if it is unclear."""
    if view.mass is not None:
        return view.mass.value
    masses = {
        c.value
        for c in found
        if c.dimension == "mass"
        and c.matches(_GRAIN)
        and not re.search(r"\bloss\b|\btare\b|\bgross\b|\bper\b|\bmolar\b", c.label)
    }
    return masses.pop() if len(masses) == 1 else None


def _find_moved_mass(transition: Transition, view: MaterialView) -> Decimal | None:
    """Return the mass in µg of the portion that a transfer put into an empty vessel, or None if it is unclear."""
    masses = {amount.value for _, amount in transition.parameters.list_amounts("mass")}
    before = transition.find_input(view)
    was_empty = before is None or before.is_empty_vessel
    is_only = len(transition.usable_outputs) <= 2
    return masses.pop() if transition.family == words.MOVE and len(masses) == 1 and was_empty and is_only else None


def _iter_relatives(transition: Transition, view: MaterialView) -> Iterator[MaterialView]:
    """Yield a material, what it was, and what a portion of it was taken from."""
    yield view
    if (before := transition.find_input(view)) is not None:
        yield before
    for source in transition.inputs:
        is_source = any(draw.source is source for draw in flows.trace_liquids(transition).withdrawals)
        if is_source or (source.mass is not None and transition.parameters.has_named(source)):
            yield source


def _check_solid_fits(transition: Transition, view: MaterialView) -> Findings:
    """Yield an error if a solid takes more space than its vessel or its bed has."""
    own = claims.list_claims(transition, [view])
    mass = _find_mass(view, own) or _find_moved_mass(transition, view)
    if mass is None or mass <= 0 or view.liquid_volume:
        return
    density, is_bulk = next(
        (
            found
            for each in _iter_relatives(transition, view)
            if (found := _find_density([*claims.list_claims(transition, [each]), *claims.read_text(each.name)]))[0]
        ),
        (None, False),
    )
    if density is None:
        return
    # µg / (g/mL) is 1e-6 mL, that is 1e-3 µL.
    volume = mass / density / 1000
    bed = {
        c.value
        for c in own
        if c.dimension == "volume" and c.matches(_BED) and not re.search(r"\bdead\b|\bvoid\b|\bcapacity\b", c.label)
    }
    if len(bed) == 1 and not is_bulk:
        [space] = bed
        densest = _DENSEST_SPHERES if view.all_words & _SPHERES else _DENSEST_GRAINS
        shown = f"at most {densest * 100:.0f} % solid", f"{volume / space * 100:.0f} %"
        text = f"the solid of {view.name} takes up {units.format_value(volume, 'volume')} and does not fit into a bed of {units.format_value(space, 'volume')}"
        yield from require("L23", volume <= space * densest, view.name, shown[0], shown[1], text)
    size = view.capacity.value if view.capacity else _find_size(view.container)
    if size:
        got, most = units.format_value(volume, "volume"), units.format_value(size, "volume")
        text = f"{view.name} takes up {got} and does not fit into {most}"
        yield from require("L05", volume <= size * _RIM, view.name, f"at most {most}", got, text)


def _find_size(container: str) -> Decimal | None:
    """Return the nominal volume in µL in the name of a container, or None if it has none."""
    sizes = {amount.value for amount in units.find_amounts(container, "volume")}
    return sizes.pop() if len(sizes) == 1 and "plate" not in container.lower() else None


def _check_sorbent(transition: Transition) -> Findings:
    """Yield an error if a cartridge gives back more of an analyte than its sorbent can bind."""
    texts = [
        leaf.value_text
        for leaf in transition.parameters.leaves
        if leaf.word_set & {"cartridge", "sorbent", "column", "bed", "mass"}
    ]
    amounts = [units.parse_amount(f"{number} {unit}") for text in texts for number, unit in _SORBENT.findall(text)]
    sorbents = {amount.value for amount in amounts if amount is not None}
    if len(sorbents) != 1:
        return
    [sorbent] = sorbents
    most = sorbent * _SORBENT_CAPACITY
    for view in transition.usable_outputs:
        if transition.find_input(view) is not None or words.REMAINDER & set(view.name_words):
            continue
        bound = [
            c.value
            for c in claims.list_claims(transition, [view])
            if c.dimension == "mass" and not re.search(r"\bsorbent\b|\bcartridge\b", c.label)
        ]
        contents = [
            a.value * view.liquid_volume / 1000
            for a in view.concentrations.values()
            if a.dimension == "mass_concentration" and view.liquid_volume
        ]
        if bound or contents:
            got = max([*bound, *contents])
            shown = units.format_value(most, "mass"), units.format_value(got, "mass")
            text = f"{view.name} has {shown[1]}, more than {units.format_value(sorbent, 'mass')} of sorbent can bind"
            yield from require("L05", got <= most, view.name, f"at most {shown[0]}", shown[1], text)


_DEVICE = word_set("filter device cassette unit insert membrane cartridge column")
_VOLUME_RANGE = re.compile(r"[0-9.]+ ?(?:-|to) ?([0-9]{1,4}(?:\.[0-9]{1,2})?) ?(mL|µL|L)\b")
_REPEATED = re.compile(
    r"\b(?:loads|portions|repeat\w*|several|in turn|batches|times|refill\w*|successive\w*)\b", re.IGNORECASE
)


def _check_device(transition: Transition) -> Findings:
    """Yield an error if a filter unit or a cassette got more than it holds, and nobody loaded it several times."""
    texts = [leaf.value_text for leaf in transition.parameters.leaves if leaf.word_set & _DEVICE]
    sizes = [
        amount.value
        for text in texts
        for amount in units.find_amounts(
            " ".join((text, *(" ".join(found) for found in _VOLUME_RANGE.findall(text)))), "volume"
        )
    ]
    notes = " ".join(seen.full_text for seen in transition.observations)[:2000]
    samples = [v for v in transition.limited_inputs if not transition.parameters.has_named(v) and not v.is_empty_vessel]
    if not sizes or len(samples) < 1 or _REPEATED.search(notes):
        return
    # The first limited input that no parameter names is the sample; a bath of buffer is larger.
    view, most = samples[0], max(sizes)
    if view.volume is not None:
        got, shown = units.format_value(view.volume.value, "volume"), units.format_value(most, "volume")
        text = f"{view.name} has {got}, more than the {shown} that the device holds"
        yield from require("L05", view.volume.value <= most * _RIM, view.name, f"at most {shown}", got, text)


def _check_binding(transition: Transition) -> Findings:
    """Yield an error if the eluate of a silica column has more DNA than any column of its size binds."""
    method = " ".join(leaf.value_text for leaf in transition.parameters.leaves).lower()
    most = next((limit for name, limit in _COLUMN_DNA if name in method), None)
    for view in transition.usable_outputs if most else ():
        amounts = [a.value for a in view.concentrations.values() if a.dimension == "mass_concentration"]
        if most and len(amounts) == 1 and view.liquid_volume and not view.all_words & {"tubes", "strip", "plate"}:
            got = amounts[0] * view.liquid_volume / 1000
            shown = units.format_value(Decimal(most), "mass"), units.format_value(got, "mass")
            text = f"{view.name} has {shown[1]} of DNA, more than a column of this kind can bind"
            yield from require("L05", got <= most, view.name, f"at most {shown[0]}", shown[1], text)


def _check_softening(transition: Transition) -> Findings:
    """Yield an error if a vessel was heated above the temperature at which its plastic softens and is unharmed."""
    set_values = [
        a.value for leaf, a in transition.parameters.list_amounts("temperature") if "lid" not in leaf.word_set
    ]
    hottest = max(set_values, default=Decimal(121) if transition.action == "Autoclave" else Decimal(0))
    texts = " ".join(seen.full_text for seen in transition.observations)[:3000]
    for before, after in transition.list_kept_pairs():
        # A reagent that a parameter names was not in the heat itself.
        if transition.parameters.has_named(before) or words.REMAINDER & set(after.name_words):
            continue
        described = f"{before.container} {before.name} {after.container}".lower()
        texts += " ".join(leaf.value_text for leaf in after.leaves)
        softens = next((limit for name, limit in _SOFTENS if re.search(rf"\b{name}\b", described)), None)
        # A lining, a cap or a stirring bar of another plastic does not carry the sample.
        if softens is None or re.search(r"\bcap\b|\bseal\w*|\blid\b|\bliner\b|\bcover\w*", described):
            continue
        is_damaged = _DAMAGED.search(_UNDAMAGED.sub(" ", texts))
        shown = f"below {softens} °C", units.format_value(hottest, "temperature")
        text = f"{after.name} was heated to {shown[1]}, at which its vessel softens"
        yield from require("L05", hottest <= softens or bool(is_damaged), after.name, shown[0], shown[1], text)


# What the catalogue states in words: "solutions of 3 mL or more", "5 mL for the standard probe", "micro to 6 g".
_OR_MORE = re.compile(r"([0-9.]{1,6} ?[mµ]?L) or more\b")
_FOR_OPTION = re.compile(r"([0-9.]{1,6} ?[mµ]?L) for the (\w+) (\w+)")
_UP_TO_MASS = re.compile(r"(\w+) to ([0-9.]{1,6} ?(?:[mk]?g))\b")
_STAYS = re.compile(r"([0-9.]{1,6} ?[mµn]?L) (?:stays?|remains?|must stay)\b")


def _find_option(transition: Transition, parameter: str) -> str:
    """Return the value of a parameter that the action sets or the catalogue gives it, in lower case."""
    return str({**transition.defaults, **transition.parameters.raw}.get(parameter, "")).lower()


def _find_least_volume(transition: Transition) -> Decimal:
    """Return the least volume in µL in which the instrument can measure, 0 if none is known."""
    inputs = transition.action_type.inputs if transition.action_type else ""
    stated: list[str] = _OR_MORE.findall(inputs)
    for text, option, parameter in _FOR_OPTION.findall(inputs):
        if _find_option(transition, parameter).split()[:1] == [option]:
            stated.append(text)
    amounts = [amount.value for text in stated if (amount := units.parse_amount(text, "", ("volume",)))]
    return max([*amounts, Decimal(_LEAST_VOLUMES.get(transition.action, 0))])


def _check_least_volume(transition: Transition) -> Findings:
    """Yield an error if an instrument measures in less liquid than its probe or cell needs."""
    least = _find_least_volume(transition)
    for view in transition.limited_inputs if least else ():
        if transition.parameters.has_named(view) or not view.volume or view.is_empty_vessel or view.volume.value <= 0:
            continue
        got, shown = view.volume.value, units.format_value(least, "volume")
        holds = got >= least * _NEARLY
        text = f"{view.name} has {units.format_value(got, 'volume')}, too little for {transition.action}"
        yield from require("L05", holds, view.name, f"at least {shown}", units.format_value(got, "volume"), text)


def _check_kept_volume(transition: Transition) -> Findings:
    """Yield an error if a source has less afterwards than the setting of its plate says must stay in each well."""
    settings = {**transition.defaults, **transition.parameters.raw}
    stated = [match for value in settings.values() if isinstance(value, str) for match in _STAYS.findall(value)]
    amounts = [amount for text in stated if (amount := units.parse_amount(text, "", ("volume",)))]
    for before, after in transition.list_kept_pairs() if len(amounts) == 1 else ():
        if flows.has_shrunk(before, after) and after.volume is not None:
            least, got = (units.format_value(a.value, "volume") for a in (amounts[0], after.volume))
            holds = after.volume.value >= amounts[0].value * _NEARLY
            text = f"{after.name} has {got} left, but {least} must stay"
            yield from require("L07", holds, after.name, f"at least {least}", got, text)


def _check_balance(transition: Transition) -> Findings:
    kind = str(transition.parameters.raw.get("balance", "")).lower()
    stated = [a.value / 1_000_000 for a in units.find_amounts(kind, "mass") if _RATED_BALANCE.search(kind)]
    kind = "microbalance" if kind.split()[:1] == ["micro"] else kind
    described = [p.description for p in transition.action_type.parameters] if transition.action_type else []
    # "micro to 6 g": the range of the balance in the catalogue, in g.
    stated += [
        amount.value / 1_000_000
        for text in described
        for option, limit in _UP_TO_MASS.findall(text)
        if option == _find_option(transition, "balance").split(" ")[0] and (amount := units.parse_amount(limit))
    ]
    maximum = max(stated) if stated else next((limit for name, limit in _BALANCES.items() if name in kind), None)
    for seen, found in claims.list_observed(transition) if maximum else ():
        masses = [claim.value for claim in found if claim.dimension == "mass"]
        if masses and maximum:
            got = units.format_value(max(masses), "mass")
            yield from require(
                "L05",
                max(masses) <= maximum * 1_000_000,
                seen.path,
                f"at most {maximum} g",
                got,
                f"{got} is above the capacity of {kind} balances",
            )
