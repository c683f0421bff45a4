"""L21: SeparateWells and ManifestMaterials change no material and take no time."""

from decimal import Decimal

from simulation.checker.amounts.inheritance import has_same_value
from simulation.checker.findings import Decided, Finding, Findings, error_finding
from simulation.checker.reading import units, words
from simulation.checker.reading.material_view import MaterialView
from simulation.checker.reading.transition import Transition

_VOLUME_PER_WELL = {"volume", "per", "well"}


def check_wells(transition: Transition) -> Findings:
    """L21: yield an error if SeparateWells or ManifestMaterials changes a material or its time of modification."""
    if not transition.is_success or transition.action not in ("SeparateWells", "ManifestMaterials"):
        return
    plates = [view for view in transition.inputs if not view.is_empty_vessel]
    for output in transition.outputs:
        plate = transition.find_input(output) or (plates[0] if len(plates) == 1 else None)
        if plate is None or (transition.action == "ManifestMaterials" and transition.find_input(output) is None):
            continue
        yield Decided("L21")
        yield from _check_own_well(plate, output)
        yield from _check_unchanged(transition, plate, output)


def _check_own_well(plate: MaterialView, output: MaterialView) -> Findings:
    """Yield an error unless a separated well has the values that the plate listed for this well or for each well."""
    volumes_per_well = [
        a for leaf in plate.leaves if set(leaf.words) == _VOLUME_PER_WELL and (a := leaf.parse_amount("volume"))
    ]
    if (
        len(volumes_per_well) == 1
        and output.volume
        and abs(output.volume.value - volumes_per_well[0].value) > volumes_per_well[0].value / 20
    ):
        yield _change_error(output, "volume", volumes_per_well[0].text, output.volume.text)
    label = _find_well_label(output)
    for leaf in plate.leaves if label else ():
        # A plate may nest the properties of its wells: "B2": {"volume": "100 µL"}.
        if label not in leaf.words[:-1]:
            continue
        property_words = leaf.words[leaf.words.index(label) + 1 :]
        same_key = [
            other for other in output.leaves if other.words == property_words and other.value_text and leaf.value_text
        ]
        if same_key and not any(has_same_value(leaf, other) for other in same_key):
            yield _change_error(output, leaf.key, leaf.value_text, same_key[0].value_text)


def _find_well_label(output: MaterialView) -> str:
    """Return the well in a material's name or in its property well or position, or "" if there are none or several."""
    property_values = {
        leaf.value_text.strip().lower() for leaf in output.leaves if set(leaf.words) <= {"well", "position"}
    }
    labels = {text for text in property_values | set(output.name_words) if words.is_well(text)}
    return labels.pop() if len(labels) == 1 else ""


def _change_error(output: MaterialView, key: str, value_before: str, value_after: str) -> Finding:
    text = f"{key[:60]} of {output.name} was {value_before[:60]} on the plate and is now {value_after[:60]}"
    return error_finding("L21", output.name, value_before[:60], value_after[:60], text)


def _check_unchanged(transition: Transition, plate: MaterialView, output: MaterialView) -> Findings:
    for field in ("environmental_condition", "material_type"):
        value_before, value_after = plate.raw.get(field), output.raw.get(field)
        if isinstance(value_before, str) and isinstance(value_after, str) and value_before != value_after:
            yield error_finding(
                "L21",
                output.name,
                value_before[:40],
                value_after[:40],
                f"{transition.action} changed {field} from {value_before[:40]} to {value_after[:40]}",
            )
    for leaf in plate.leaves:
        # These describe the whole plate, so one well may differ.
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
        same_key = [
            other for other in output.leaves if other.words == leaf.words and other.value_text and leaf.value_text
        ]
        if same_key and not any(has_same_value(leaf, other) for other in same_key):
            yield error_finding(
                "L21",
                output.name,
                leaf.value_text[:60],
                same_key[0].value_text[:60],
                f"{transition.action} changed {leaf.key} from {leaf.value_text[:60]} to {same_key[0].value_text[:60]}",
            )
    had_volume, has_volume = plate.volume, output.volume
    if had_volume and has_volume and has_volume.value > had_volume.value * Decimal("1.01"):
        yield error_finding(
            "L21",
            output.name,
            units.format_value(had_volume.value, "volume"),
            units.format_value(has_volume.value, "volume"),
            f"{output.name} holds more than before",
        )
    for field in ("created_at", "last_modified"):
        value_before, value_after = plate.raw.get(field), output.raw.get(field)
        if (
            field == "last_modified"
            and value_before is not None
            and value_after is not None
            and type(value_before) is type(value_after)
            and value_before != value_after
        ):
            yield error_finding(
                "L21",
                output.name,
                str(value_before)[:40],
                str(value_after)[:40],
                f"the time of {output.name} changed, although {transition.action} takes no time",
            )
