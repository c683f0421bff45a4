"""L14: the storage condition fits the temperature, the action, and the properties that it requires."""

from simulation.checker.findings import Ran, Said, error, undecided, warning
from simulation.checker.reading import families, meaning, terms, units
from simulation.checker.reading.reading import View
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.words import listed

# Actions that may put a material into another storage condition than its own or that of the bench.
_PLACES = listed(
    "Storage Incubate CellCultureIncubate FlashFreeze FreezeCells Lyophilize Thermocycler Wait Autoclave Microwave DryingOven "
    "Desiccate Evaporate Dialysis ManifestMaterials SubmitMaterialsObservationsForReview Quit Discard"
)
# Conditions in which a material can be after these.
_FREEZING = {"FlashFreeze": ("-196C", "-80C", "dry_ice"), "FreezeCells": ("-196C", "-80C", "dry_ice", "-20C")}
_CARBON_DIOXIDE = frozenset({"co2", "carbon"})


def conditions(transition: Transition) -> Said:
    """L14: check the storage condition of every output that is available for further use."""
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
    """A material in an incubator has a temperature among its properties, and CO2 in cell culture."""
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
    for quantity in missing:
        text = f"{output.name} is in {output.condition}, but its properties have no {quantity}"
        # The property was missing before this step, so the step is not to blame.
        was_there_before = (
            before is not None and before.condition == output.condition and transition.action not in _PLACES
        )
        if was_there_before and before is not None and quantity == "temperature" and before.temperature is None:
            yield warning("L14", output.name, f"a {quantity}", "none", text)
        else:
            yield error("L14", output.name, f"a {quantity}", "none", text)


def _temperature(output: View) -> Said:
    if output.temperature is None:
        return
    low, high = terms.TEMPERATURES[output.condition]
    yield Ran("L14")
    if not low <= output.temperature.value <= high:
        temperature_text = units.show(output.temperature.value, "temperature")
        yield error(
            "L14",
            output.name,
            f"{low} to {high} °C",
            temperature_text,
            f"{output.name} is at {temperature_text} in {output.condition}",
        )


def _moved(transition: Transition, output: View) -> Said:
    """No material gets into the deep cold or an incubator by an action that puts nothing there."""
    if transition.action in _PLACES or transition.family in (families.MAKE, families.UNKNOWN):
        return
    input_conditions = {view.condition for view in transition.inputs}
    before = transition.before(output)
    allowed = {before.condition} if before is not None and before.condition else input_conditions
    is_heated = (
        any(meaning.is_temperature(leaf) for leaf in transition.parameters.leaves)
        and output.condition == "incubating_conditions"
    )
    is_requested = any(terms.condition(leaf.value) == output.condition for leaf in transition.parameters.leaves)
    needs_action = output.condition in (*terms.FROZEN_CONDITIONS, *terms.INCUBATORS)
    if needs_action and output.condition not in allowed and not is_heated and not is_requested and "" not in allowed:
        yield error("L14", output.name, " or ".join(sorted(allowed | {"room_temp"})), output.condition,
                    f"{output.name} is in {output.condition}, but {transition.action} does not put materials there")  # fmt: skip


def _put(transition: Transition, output: View) -> Said:
    """A stored, frozen or incubated material is where the action puts it."""
    before = transition.before(output)
    if before is None:
        return
    statement = f"{output.name} is in {output.condition} after {transition.action}"
    if transition.action == "Storage" and (requested := _stored_at(transition)):
        if output.condition != requested:
            yield error("L14", output.name, requested, output.condition, f"{statement} at {requested}")
    elif transition.action in _FREEZING and output.condition not in _FREEZING[transition.action]:
        yield error("L14", output.name, " or ".join(_FREEZING[transition.action]), output.condition, statement)
    elif transition.action in ("Incubate", "CellCultureIncubate"):
        yield from _incubated(transition, output, statement)


def _incubated(transition: Transition, output: View, said: str) -> Said:
    temperatures = [amount.value for leaf, amount in transition.parameters.amounts("temperature")]
    if not temperatures and transition.action == "Incubate":
        yield undecided("L14", output.name, "no temperature is given")
    elif output.condition in terms.FROZEN_CONDITIONS and all(value > 0 for value in temperatures):
        yield error("L14", output.name, "an incubator or the bench", output.condition, said)


def _stored_at(transition: Transition) -> str:
    """Return the only condition that the parameters name, or the one of the temperature that they give, or ""."""
    conditions_found = {
        condition_found
        for leaf in transition.parameters.leaves
        if (condition_found := terms.condition(leaf.value)) and not set(leaf.words) & {"before", "initial"}
    }
    if not conditions_found:
        conditions_by_temperature = {"4": "4C", "-20": "-20C", "-80": "-80C", "-196": "-196C"}
        conditions_found = {
            conditions_by_temperature[key]
            for _, a in transition.parameters.amounts("temperature")
            if (key := f"{a.value.normalize():f}") in conditions_by_temperature
        }
    return conditions_found.pop() if len(conditions_found) == 1 else ""
