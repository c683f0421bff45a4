"""Find the material that is drawn from, and the one that is added."""

from simulation.checker.reading import words
from simulation.checker.reading.parameters import SOLVENT, SOURCE, TARGET
from simulation.checker.reading.reading import View
from simulation.checker.reading.transition import Transition


def source_of(transition: Transition) -> View | None:
    """Return the material that a move draws from: named by a parameter, the only liquid, or the only one that shrank."""
    if (named_source := transition.parameters.material(SOURCE)) is not None:
        return named_source
    # Several named sources: the draw cannot be assigned to one of them.
    if len({view.place for key, view in transition.parameters.named.items() if SOURCE & set(words.cut(key))}) > 1:
        return None
    full = [view for view in transition.inputs if not view.supply and view.held != 0]
    targets = [view for key, view in transition.parameters.named.items() if TARGET & set(words.cut(key))]
    full = [view for view in full if all(view is not target for target in targets)]
    if len(full) == 1:
        return full[0]
    shrunk = [view for view in full if (remainder := transition.after(view)) and _less(remainder, view)]
    return shrunk[0] if len(shrunk) == 1 else None


def solvent_of(transition: Transition) -> View | None:
    """Return the material that is added to the samples: named by a parameter, or the only solvent by name."""
    if (named_solvent := transition.parameters.material(SOLVENT)) is not None:
        return named_solvent
    filled = [view for view in transition.inputs if not view.supply]
    solvents = [view for view in filled if words.SOLVENTS & set(view.words)]
    return solvents[0] if len(solvents) == 1 and len(filled) > 1 else None


def _less(after: View, before: View) -> bool:
    return after.held is not None and before.held is not None and after.held < before.held
