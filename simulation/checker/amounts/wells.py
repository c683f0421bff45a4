"""L21: taking wells apart or adding to the bench changes nothing and takes no time."""

from decimal import Decimal

from simulation.checker.amounts.inheritance import alike
from simulation.checker.findings import Finding, Ran, Said, error
from simulation.checker.reading import units, words
from simulation.checker.reading.reading import View
from simulation.checker.reading.transition import Transition

_EACH = {"volume", "per", "well"}


def wells(transition: Transition) -> Said:
    """L21: taking wells apart or adding to the bench changes nothing and takes no time."""
    if not transition.success or transition.action not in ("SeparateWells", "ManifestMaterials"):
        return
    plates = [view for view in transition.inputs if not view.supply]
    for output in transition.outputs:
        plate = transition.before(output) or (plates[0] if len(plates) == 1 else None)
        if plate is None or (transition.action == "ManifestMaterials" and transition.before(output) is None):
            continue
        yield Ran("L21")
        yield from _own_well(plate, output)
        yield from _untouched(transition, plate, output)


def _own_well(plate: View, output: View) -> Said:
    """What the plate told of this well, or of each, is what it holds by itself."""
    each = [a for leaf in plate.leaves if set(leaf.words) == _EACH and (a := leaf.amount("volume"))]
    if len(each) == 1 and output.volume and abs(output.volume.value - each[0].value) > each[0].value / 20:
        yield _changed(output, "volume", each[0].text, output.volume.text)
    label = _label(output)
    for leaf in plate.leaves if label else ():
        if label not in leaf.words[:-1]:
            continue
        own = leaf.words[leaf.words.index(label) + 1 :]
        now = [other for other in output.leaves if other.words == own and other.text and leaf.text]
        if now and not any(alike(leaf, other) for other in now):
            yield _changed(output, leaf.key, leaf.text, now[0].text)


def _label(output: View) -> str:
    """The one well its name or its property of that name gives; "" if none or several."""
    told = {leaf.text.strip().lower() for leaf in output.leaves if set(leaf.words) <= {"well", "position"}}
    found = {text for text in told | set(output.words) if words.is_well(text)}
    return found.pop() if len(found) == 1 else ""


def _changed(output: View, what: str, had: str, has: str) -> Finding:
    text = f"{what[:60]} of {output.name} was {had[:60]} on the plate and is {has[:60]}"
    return error("L21", output.name, had[:60], has[:60], text)


def _untouched(transition: Transition, plate: View, output: View) -> Said:
    for field in ("environmental_condition", "material_type"):
        had, has = plate.raw.get(field), output.raw.get(field)
        if isinstance(had, str) and isinstance(has, str) and had != has:
            yield error(
                "L21",
                output.name,
                had[:40],
                has[:40],
                f"{field} changed from {had[:40]} to {has[:40]} by {transition.action}",
            )
    for leaf in plate.leaves:
        if set(leaf.words) & {
            "well",
            "volume",
            "position",
            "format",
            "layout",
            "container",
            "capacity",
            "name",
            "phase",
            "number",
            "count",
        }:
            continue
        now = [other for other in output.leaves if other.words == leaf.words and other.text and leaf.text]
        if now and not any(alike(leaf, other) for other in now):
            yield error(
                "L21",
                output.name,
                leaf.text[:60],
                now[0].text[:60],
                f"{leaf.key} changed from {leaf.text[:60]} to {now[0].text[:60]} by {transition.action}",
            )
    had_volume, has_volume = plate.volume, output.volume
    if had_volume and has_volume and has_volume.value > had_volume.value * Decimal("1.01"):
        yield error(
            "L21",
            output.name,
            units.show(had_volume.value, "volume"),
            units.show(has_volume.value, "volume"),
            f"{output.name} holds more than before",
        )
    for field in ("created_at", "last_modified"):
        had, has = plate.raw.get(field), output.raw.get(field)
        if field == "last_modified" and had is not None and has is not None and type(had) is type(has) and had != has:
            yield error(
                "L21",
                output.name,
                str(had)[:40],
                str(has)[:40],
                f"time passed for {output.name}; {transition.action} takes none",
            )
