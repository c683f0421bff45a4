"""L05: how much a container can hold, and into which instrument it fits."""

from decimal import Decimal

from simulation.checker.findings import Decided, Findings, error_finding, undecided_finding
from simulation.checker.reading import units, words
from simulation.checker.reading.material_view import MaterialView
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.words import word_set

# Containers hold a little more than their nominal size: a 500 mL bottle takes 550 mL.
_NOMINAL = Decimal("1.15")
# Containers whose size is the volume of one filling, unlike that of a plate or a box.
_SIZED = word_set(
    "tube vial flask bottle beaker falcon eppendorf cuvette microtube cryovial cylinder jar microcentrifuge conical"
)
# Formats for plate readers and microscopes, and formats that do not fit them.
_FLAT = word_set("plate microplate well dish slide flask chamber coverslip chip petri")
_NOT_FLAT = word_set("tube vial bottle beaker falcon eppendorf bag cylinder conical cryovial microtube")


def check_containers(transition: Transition) -> Findings:
    """L05: yield an error if a container holds too much or too little, or does not fit into the instrument."""
    if not transition.is_success:
        return
    for output in transition.usable_outputs:
        yield from _check_fill_level(transition, output)
    if transition.action in ("UsePlateReader", "UseMicroscope", "Thermocycler"):
        for view in transition.inputs:
            yield from _check_format(transition, view)


def _check_fill_level(transition: Transition, output: MaterialView) -> Findings:
    input_before = transition.find_input(output)
    stated_capacity = output.capacity or (input_before.capacity if input_before else None)
    nominal_size = _parse_nominal_size(output) or (_parse_nominal_size(input_before) if input_before else None)
    if output.volume is None or (stated_capacity is None and nominal_size is None):
        if output.volume is not None:
            yield undecided_finding("L05", output.name, "the capacity of its container is not known")
        return
    maximum = stated_capacity.value if stated_capacity else (nominal_size or Decimal(0)) * _NOMINAL
    yield Decided("L05", quantity=True)
    # Exactly full is allowed; 0.5 % for the rounding of both numbers.
    if output.volume.value > maximum * Decimal("1.005"):
        yield error_finding("L05", output.name, f"at most {_format_volume(maximum)}", _format_volume(output.volume.value),
                    f"{output.name} holds {_format_volume(output.volume.value)} in a container for at most {_format_volume(maximum)}", "0.5 %")  # fmt: skip
    minimum = output.minimum_volume
    # Only for new materials: in other containers, taking a portion may leave less than the minimum.
    if minimum is not None and 0 < output.volume.value < minimum.value and input_before is None:
        yield error_finding("L05", output.name, f"at least {_format_volume(minimum.value)}", _format_volume(output.volume.value),
                    f"{output.name} holds less than the {_format_volume(minimum.value)} that its container needs")  # fmt: skip


def _parse_nominal_size(view: MaterialView) -> Decimal | None:
    """Return the volume in a container's name, such as "1.5 mL tube", or None. Plates and boxes are ignored."""
    container_words = set(words.tokenize(view.container))
    size = units.parse_amount(view.container, "", ("volume",))
    if (
        size is None
        or size.dimension != "volume"
        or not container_words & _SIZED
        or container_words & {"box", "well", "plate", "rack"}
    ):
        return None
    return size.value


def _check_format(transition: Transition, view: MaterialView) -> Findings:
    if view.is_empty_vessel or any(view is other for other in transition.parameters.materials_by_key.values()):
        return
    container_words = set(words.tokenize(view.container))
    if not container_words:
        yield undecided_finding("L05", view.name, "its container is not known")
        return
    yield Decided("L05")
    text = f"{transition.action} does not take {view.name} in {view.container[:60]}"
    if (
        transition.action == "UsePlateReader"
        and not container_words & (_FLAT - {"flask", "dish", "slide", "petri"})
        and container_words & (_NOT_FLAT | {"flask", "dish", "cuvette"})
    ):
        yield error_finding("L05", view.name, "a microplate", view.container[:60], text)
    elif transition.action == "UseMicroscope" and not container_words & _FLAT and container_words & _NOT_FLAT:
        yield error_finding("L05", view.name, "a plate, dish, flask or slide", view.container[:60], text)
    elif transition.action == "Thermocycler" and not container_words & {"pcr", "plate", "well", "strip"}:
        size = _parse_nominal_size(view)
        # PCR tubes hold 0.2 mL; 1.5 mL and more never fit a thermocycler.
        if size is not None and size >= 1500:
            yield error_finding("L05", view.name, "a PCR tube or plate", view.container[:60], text)


def _format_volume(volume: Decimal) -> str:
    return units.format_value(volume, "volume")
