"""Which material is drawn from, and which is added."""

from simulation.checker.reading import words
from simulation.checker.reading.parameters import SOLVENT, SOURCE, TARGET
from simulation.checker.reading.reading import View
from simulation.checker.reading.transition import Transition


def source_of(transition: Transition) -> View | None:
    """Where a move draws from: the parameter that says so, the only thing with liquid in it, or the one that shrank."""
    if (named := transition.parameters.material(SOURCE)) is not None:
        return named
    if len({view.place for key, view in transition.parameters.named.items() if SOURCE & set(words.cut(key))}) > 1:
        return None
    full = [view for view in transition.inputs if not view.supply and view.held != 0]
    targets = [view for key, view in transition.parameters.named.items() if TARGET & set(words.cut(key))]
    full = [view for view in full if all(view is not target for target in targets)]
    if len(full) == 1:
        return full[0]
    shrunk = [view for view in full if (left := transition.after(view)) and _less(left, view)]
    return shrunk[0] if len(shrunk) == 1 else None


def solvent_of(transition: Transition) -> View | None:
    """What is added to the samples: the parameter that says so, or the only solvent by name."""
    if (named := transition.parameters.material(SOLVENT)) is not None:
        return named
    wet = [view for view in transition.inputs if not view.supply]
    found = [view for view in wet if words.SOLVENTS & set(view.words)]
    return found[0] if len(found) == 1 and len(wet) > 1 else None


def _less(after: View, before: View) -> bool:
    return after.held is not None and before.held is not None and after.held < before.held
