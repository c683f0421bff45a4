"""L14: where a material stands fits its temperature, the action that put it there, and what must be written with it."""

from simulation.checker.findings import Ran, Said, error, undecided, warning
from simulation.checker.reading import families, meaning, terms, units
from simulation.checker.reading.reading import View
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.words import listed

# Actions that may leave a material somewhere else than where it was or on the bench.
_PLACES = listed(
    "Storage Incubate CellCultureIncubate FlashFreeze FreezeCells Lyophilize Thermocycler Wait Autoclave Microwave DryingOven "
    "Desiccate Evaporate Dialysis ManifestMaterials SubmitMaterialsObservationsForReview Quit Discard"
)
_FREEZING = {"FlashFreeze": ("-196C", "-80C", "dry_ice"), "FreezeCells": ("-196C", "-80C", "dry_ice", "-20C")}
_CARBON_DIOXIDE = frozenset({"co2", "carbon"})


def conditions(transition: Transition) -> Said:
    if not transition.success:
        return
    for output in transition.kept:
        if output.condition:
            yield Ran("L14")
            yield from _written(transition, output)
            yield from _temperature(output)
            yield from _moved(transition, output)
            yield from _put(transition, output)


def _written(transition: Transition, output: View) -> Said:
    """In an incubator the temperature stands in the properties, with CO2 for cell culture."""
    if output.condition not in terms.INCUBATORS:
        return
    missing = []
    if not any(leaf.amount("temperature") for leaf in output.leaves) and not any(
        meaning.is_temperature(leaf) for leaf in output.leaves
    ):
        missing.append("temperature")
    if output.condition == "cell_culture_conditions" and not output.mentions & _CARBON_DIOXIDE:
        missing.append("CO2")
    before = transition.before(output)
    for what in missing:
        text = f"{output.name} is in {output.condition} and no {what} is among its properties"
        inherited = before is not None and before.condition == output.condition and transition.action not in _PLACES
        if inherited and before is not None and what == "temperature" and before.temperature is None:
            yield warning("L14", output.name, f"a {what}", "none", text)
        else:
            yield error("L14", output.name, f"a {what}", "none", text)


def _temperature(output: View) -> Said:
    if output.temperature is None:
        return
    low, high = terms.TEMPERATURES[output.condition]
    yield Ran("L14")
    if not low <= output.temperature.value <= high:
        shown = units.show(output.temperature.value, "temperature")
        yield error(
            "L14", output.name, f"{low} to {high} °C", shown, f"{output.name} is at {shown} in {output.condition}"
        )


def _moved(transition: Transition, output: View) -> Said:
    """Nothing gets into the deep cold or an incubator by an action that puts nothing there."""
    if transition.action in _PLACES or transition.family in (families.MAKE, families.UNKNOWN):
        return
    known = {view.condition for view in transition.inputs}
    before = transition.before(output)
    allowed = {before.condition} if before is not None and before.condition else known
    heated = (
        any(meaning.is_temperature(leaf) for leaf in transition.parameters.leaves)
        and output.condition == "incubating_conditions"
    )
    told = any(terms.condition(leaf.value) == output.condition for leaf in transition.parameters.leaves)
    odd = output.condition in (*terms.FROZEN_CONDITIONS, *terms.INCUBATORS)
    if odd and output.condition not in allowed and not heated and not told and "" not in allowed:
        yield error("L14", output.name, " or ".join(sorted(allowed | {"room_temp"})), output.condition,
                    f"{output.name} is in {output.condition}; {transition.action} puts nothing there")  # fmt: skip


def _put(transition: Transition, output: View) -> Said:
    """What is stored, frozen or incubated stands where that is done."""
    before = transition.before(output)
    if before is None:
        return
    said = f"{output.name} is in {output.condition} after {transition.action}"
    if transition.action == "Storage" and (wanted := _stored_at(transition)):
        if output.condition != wanted:
            yield error("L14", output.name, wanted, output.condition, f"{said} at {wanted}")
    elif transition.action in _FREEZING and output.condition not in _FREEZING[transition.action]:
        yield error("L14", output.name, " or ".join(_FREEZING[transition.action]), output.condition, said)
    elif transition.action in ("Incubate", "CellCultureIncubate"):
        yield from _incubated(transition, output, said)


def _incubated(transition: Transition, output: View, said: str) -> Said:
    asked = [amount.value for leaf, amount in transition.parameters.amounts("temperature")]
    if not asked and transition.action == "Incubate":
        yield undecided("L14", output.name, "no temperature is given")
    elif output.condition in terms.FROZEN_CONDITIONS and all(value > 0 for value in asked):
        yield error("L14", output.name, "an incubator or the bench", output.condition, said)


def _stored_at(transition: Transition) -> str:
    """The one condition that the parameters name, or the one whose temperature they give."""
    found = {
        known
        for leaf in transition.parameters.leaves
        if (known := terms.condition(leaf.value)) and not set(leaf.words) & {"before", "initial"}
    }
    if not found:
        nominal = {"4": "4C", "-20": "-20C", "-80": "-80C", "-196": "-196C"}
        found = {
            nominal[key]
            for _, a in transition.parameters.amounts("temperature")
            if (key := f"{a.value.normalize():f}") in nominal
        }
    return found.pop() if len(found) == 1 else ""
