"""Subtle errors in settings: the outcome states another setting than the action did."""

import random
from collections.abc import Iterator

from simulation.lab.parameters import Parameter
from simulation.offline.injectors.edits import Case, Plan, sample_places
from simulation.offline.injectors.setting_values import change_setting, find_setting_values

_LIGHT = ("wavelength", "laser", "channels", "detection_filter")
_TOPIC_OF_DIMENSION = {
    "centrifugal_force": "force",
    "rotation": "force",
    "duration": "time",
    "temperature": "temperature",
}


def wrong_objective(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which a microscope's record states another objective than the one that was set."""
    yield from _plan_wrong_setting(case, rng, "objective", "the objective set is the one looked through")


def wrong_wavelength(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which a record states another wavelength, laser, filter or channel than the one that was set."""
    yield from _plan_wrong_setting(case, rng, "light", "the light set is the light used")


def wrong_force(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which a record or material states another force or speed than the one that was set."""
    yield from _plan_wrong_setting(case, rng, "force", "the force set is the one the vessel was spun at")


def wrong_time(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which a record or material states another duration than the one that was set."""
    yield from _plan_wrong_setting(case, rng, "time", "the time set is the time it took")


def wrong_temperature(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which a record or material states another temperature than the one that was set."""
    yield from _plan_wrong_setting(case, rng, "temperature", "the temperature set is the one held")


def wrong_setting(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which a record or material states another filter, column, volume or mode than the one set."""
    yield from _plan_wrong_setting(case, rng, "other", "what was set is what was done")


def _find_topic(parameter: Parameter) -> str:
    if parameter.name == "objective":
        return "objective"
    # The name decides, because wavelengths have a dimension of their own but lasers, channels and filters are options.
    if any(part in parameter.name for part in _LIGHT):
        return "light"
    return _TOPIC_OF_DIMENSION.get(parameter.dimension, "other")


def _plan_wrong_setting(case: Case, rng: random.Random, topic: str, rule: str) -> Iterator[Plan]:
    for echo in sample_places(
        rng, [echo for echo in find_setting_values(case) if _find_topic(echo.parameter) == topic]
    ):
        for wrong in echo.list_nearby():
            if wrong != echo.text:
                explanation = f"{echo.setting_name} was set to {echo.text}, and here it is {wrong}"
                yield Plan(rule, explanation, change_setting(case, echo, wrong))


INJECTORS = (wrong_objective, wrong_wavelength, wrong_force, wrong_time, wrong_temperature, wrong_setting)
