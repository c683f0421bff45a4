"""L14: the storage condition fits the temperature, the action, and the properties that it requires."""

from simulation.checker.findings import Decided, Findings, error_finding, undecided_finding, warning_finding
from simulation.checker.reading import families, property_meaning, units, vocabulary
from simulation.checker.reading.material_view import MaterialView
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.words import word_set

# Actions that may put a material into another storage condition than its own or that of the bench.
_CHANGES_CONDITION = word_set(
    "Storage Incubate CellCultureIncubate FlashFreeze FreezeCells Lyophilize Thermocycler Wait Autoclave Microwave DryingOven "
    "Desiccate Evaporate Dialysis ManifestMaterials SubmitMaterialsObservationsForReview Quit Discard"
)
# Conditions in which a material can be after these actions.
_FREEZING = {"FlashFreeze": ("-196C", "-80C", "dry_ice"), "FreezeCells": ("-196C", "-80C", "dry_ice", "-20C")}
_CARBON_DIOXIDE = frozenset({"co2", "carbon"})


def check_storage_conditions(transition: Transition) -> Findings:
    """L14: check the storage condition of every output that is available for further use."""
    if not transition.is_success:
        return
    for output in transition.usable_outputs:
        if output.condition:
            yield Decided("L14")
            yield from _check_required_properties(transition, output)
            yield from _check_temperature(output)
            yield from _check_unexpected_move(transition, output)
            yield from _check_target_condition(transition, output)


def _check_required_properties(transition: Transition, output: MaterialView) -> Findings:
    """Yield a finding if a material in an incubator has no temperature or, in cell culture, no CO2 as a property."""
    if output.condition not in vocabulary.INCUBATORS:
        return
    missing = []
    if not any(leaf.parse_amount("temperature") for leaf in output.leaves) and not any(
        property_meaning.is_temperature(leaf) for leaf in output.leaves
    ):
        missing.append("temperature")
    if output.condition == "cell_culture_conditions" and not output.all_words & _CARBON_DIOXIDE:
        missing.append("CO2")
    before = transition.find_input(output)
    for quantity in missing:
        text = f"{output.name} is in {output.condition}, but its properties have no {quantity}"
        # If the property was missing before this step, the step did not cause the fault.
        was_there_before = (
            before is not None and before.condition == output.condition and transition.action not in _CHANGES_CONDITION
        )
        if was_there_before and before is not None and quantity == "temperature" and before.temperature is None:
            yield warning_finding("L14", output.name, f"a {quantity}", "none", text)
        else:
            yield error_finding("L14", output.name, f"a {quantity}", "none", text)


def _check_temperature(output: MaterialView) -> Findings:
    if output.temperature is None:
        return
    low, high = vocabulary.TEMPERATURES[output.condition]
    yield Decided("L14")
    if not low <= output.temperature.value <= high:
        temperature_text = units.format_value(output.temperature.value, "temperature")
        yield error_finding(
            "L14",
            output.name,
            f"{low} to {high} °C",
            temperature_text,
            f"{output.name} is at {temperature_text} in {output.condition}",
        )


def _check_unexpected_move(transition: Transition, output: MaterialView) -> Findings:
    """Yield an error if a material is in the deep cold or an incubator after an action that puts nothing there."""
    if transition.action in _CHANGES_CONDITION or transition.family in (families.MAKE, families.UNKNOWN):
        return
    input_conditions = {view.condition for view in transition.inputs}
    before = transition.find_input(output)
    allowed = {before.condition} if before is not None and before.condition else input_conditions
    is_heated = (
        any(property_meaning.is_temperature(leaf) for leaf in transition.parameters.leaves)
        and output.condition == "incubating_conditions"
    )
    is_requested = any(
        vocabulary.parse_condition(leaf.value) == output.condition for leaf in transition.parameters.leaves
    )
    needs_action = output.condition in (*vocabulary.FROZEN_CONDITIONS, *vocabulary.INCUBATORS)
    if needs_action and output.condition not in allowed and not is_heated and not is_requested and "" not in allowed:
        yield error_finding("L14", output.name, " or ".join(sorted(allowed | {"room_temp"})), output.condition,
                    f"{output.name} is in {output.condition}, but {transition.action} does not put materials there")  # fmt: skip


def _check_target_condition(transition: Transition, output: MaterialView) -> Findings:
    """Yield an error unless a stored, frozen or incubated material is where the action puts it."""
    before = transition.find_input(output)
    if before is None:
        return
    statement = f"{output.name} is in {output.condition} after {transition.action}"
    if transition.action == "Storage" and (requested := _find_requested_condition(transition)):
        if output.condition != requested:
            yield error_finding("L14", output.name, requested, output.condition, f"{statement} at {requested}")
    elif transition.action in _FREEZING and output.condition not in _FREEZING[transition.action]:
        yield error_finding("L14", output.name, " or ".join(_FREEZING[transition.action]), output.condition, statement)
    elif transition.action in ("Incubate", "CellCultureIncubate"):
        yield from _check_incubation(transition, output, statement)


def _check_incubation(transition: Transition, output: MaterialView, statement: str) -> Findings:
    temperatures = [amount.value for leaf, amount in transition.parameters.list_amounts("temperature")]
    if not temperatures and transition.action == "Incubate":
        yield undecided_finding("L14", output.name, "no temperature is given")
    elif output.condition in vocabulary.FROZEN_CONDITIONS and all(value > 0 for value in temperatures):
        yield error_finding("L14", output.name, "an incubator or the bench", output.condition, statement)


def _find_requested_condition(transition: Transition) -> str:
    """Return the storage condition that the parameters name or else imply by a temperature, or "" if it is unclear."""
    conditions_found = {
        condition_found
        for leaf in transition.parameters.leaves
        if (condition_found := vocabulary.parse_condition(leaf.value)) and not set(leaf.words) & {"before", "initial"}
    }
    if not conditions_found:
        conditions_by_temperature = {"4": "4C", "-20": "-20C", "-80": "-80C", "-196": "-196C"}
        conditions_found = {
            conditions_by_temperature[key]
            for _, a in transition.parameters.list_amounts("temperature")
            if (key := f"{a.value.normalize():f}") in conditions_by_temperature
        }
    return conditions_found.pop() if len(conditions_found) == 1 else ""
