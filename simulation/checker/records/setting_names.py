"""L16 by name: a record or property with the name of a setting has the value that was set."""

from collections.abc import Iterator
from typing import Any

from simulation.checker.findings import Decided, Findings
from simulation.checker.reading import units, words
from simulation.checker.reading.material_view import MaterialView
from simulation.checker.reading.transition import ObservationView, Transition
from simulation.checker.records import optics


def check_recorded_setting(transition: Transition, name: str, value: Any, seen: ObservationView) -> Findings:
    """Yield an error if a record names a setting and gives another value than the one that was set."""
    position = seen.description.lower().find(f" {name} ")
    # The name of the setting may be part of a material's name; 100 names limit the time on hostile input.
    if position < 0 or any(name in view.name.lower() for view in transition.inputs[:100]):
        return
    recorded_text = (
        seen.description[position + len(name) + 2 :][:60]
        .lstrip(":= ")
        .removeprefix("of ")
        .removeprefix("was ")
        .removeprefix("is ")
        .removeprefix("set to ")
    )
    set_amount, recorded_amount = units.parse_amount(value), units.parse_amount(recorded_text)
    if set_amount and recorded_amount and set_amount.dimension == recorded_amount.dimension:
        yield Decided("L16", quantity=True)
        # 1 %: a record repeats the setting, it does not measure it.
        if abs(set_amount.value - recorded_amount.value) > abs(set_amount.value) / 100 + set_amount.step / 100:
            yield optics.setting_error("L16", seen.path, f"{name} {str(value)[:40]}", f"{name} {recorded_text[:30]}")
    elif isinstance(value, str) and (other_options := _list_other_options(transition, name, value)):
        yield Decided("L16")
        other_option = next((o for o in other_options if recorded_text.lower().startswith(o.lower())), "")
        if not recorded_text.lower().startswith(value.lower()) and other_option:
            yield optics.setting_error("L16", seen.path, f"{name} {value[:40]}", f"{name} {other_option[:40]}")


def check_property_setting(transition: Transition, name: str, value: Any, view: MaterialView) -> Findings:
    """Yield an error if a property that this step wrote has the name of a setting but another value."""
    key_words = frozenset(words.tokenize(name))
    # These names are common to settings and materials and mean different things there.
    if key_words & {
        "volume",
        "amount",
        "mass",
        "temperature",
        "concentration",
        "time",
        "duration",
        "source",
        "name",
        "label",
        "container",
        "count",
    }:
        return
    set_amount = units.parse_amount(value)
    before = transition.find_input(view)
    old_texts = {leaf.value_text for leaf in before.leaves if frozenset(leaf.words) == key_words} if before else set()
    for leaf in view.leaves:
        if frozenset(leaf.words) != key_words or leaf.value_text in old_texts:
            continue
        property_amount = leaf.parse_amount()
        if set_amount and property_amount and set_amount.dimension == property_amount.dimension:
            yield Decided("L16", quantity=True)
            if abs(set_amount.value - property_amount.value) > abs(set_amount.value) / 50:
                yield optics.setting_error(
                    "L16", view.name, f"{name} {str(value)[:40]}", f"{name} {leaf.value_text[:40]}"
                )
        elif (
            isinstance(value, str)
            and leaf.value_text
            and set_amount is None
            and not set(words.tokenize(value)) & set(words.tokenize(leaf.value_text))
        ):
            options = _list_other_options(transition, name, value)
            if any(option.lower() == leaf.value_text.lower() for option in options):
                yield optics.setting_error("L16", view.name, f"{name} {value[:40]}", f"{name} {leaf.value_text[:40]}")


def check_chosen_option(transition: Transition, name: str, value: Any, view: MaterialView) -> Findings:
    """Yield an error if a property that this step wrote has another option than the one that was chosen."""
    options = (
        # Short options are parts of other words.
        [option for option in _list_other_options(transition, name, value) if len(option) > 2]
        if isinstance(value, str)
        else []
    )
    input_texts = transition.input_texts
    for leaf in view.leaves if options else ():
        property_text = f" {leaf.value_text.lower()} "
        if (
            leaf.value_text in input_texts
            or f" {str(value).lower()} " in property_text
            or set(leaf.words) & {"medium", "container", "phase", "label"}
        ):
            continue
        is_about_setting = "through" in leaf.words or set(words.tokenize(name)) & set(leaf.words)
        other_option = next((option for option in options if f" {option.lower()} " in property_text), "")
        if is_about_setting and other_option:
            yield optics.setting_error("L16", view.name, f"{name} {value}", f"{name} {other_option}")


def iter_settings(transition: Transition) -> Iterator[tuple[str, Any]]:
    """Yield (name in words, value) of every parameter set, and of the defaults of those not set."""
    for leaf in transition.parameters.leaves:
        # A record may give any of several values under one name, so it cannot contradict them.
        has_several = "#" in leaf.words or (isinstance(leaf.value, str) and "," in leaf.value)
        if isinstance(leaf.value, str | int | float) and not isinstance(leaf.value, bool) and not has_several:
            yield leaf.key.replace("_", " ").lower(), leaf.value
    if transition.action_type is not None:
        for parameter in transition.action_type.parameters:
            if parameter.default is not None and parameter.name not in transition.parameters.raw:
                yield parameter.name.replace("_", " "), parameter.default


def _list_other_options(transition: Transition, name: str, value: str) -> list[str]:
    """Return the options of a parameter other than `value`, or none if the catalogue does not have the parameter."""
    kind = transition.action_type
    parameters = [p for p in kind.parameters if p.name.replace("_", " ") == name] if kind else []
    return [option for p in parameters for option in p.options if option.lower() != value.lower()]
