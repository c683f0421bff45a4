"""Find the material from which an action draws, and the material that it adds."""

from simulation.checker.reading import words
from simulation.checker.reading.material_view import MaterialView
from simulation.checker.reading.parameters import SOLVENT, SOURCE, TARGET
from simulation.checker.reading.transition import Transition


def find_source(transition: Transition) -> MaterialView | None:
    """Return the source of a move: named by a parameter, else the only filled input, else the only one that shrank."""
    if (named_source := transition.parameters.find_material(SOURCE)) is not None:
        return named_source
    # If parameters name several sources, the volume taken cannot be assigned to one of them.
    if (
        len(
            {
                view.path
                for key, view in transition.parameters.materials_by_key.items()
                if SOURCE & set(words.tokenize(key))
            }
        )
        > 1
    ):
        return None
    full = [view for view in transition.inputs if not view.is_empty_vessel and view.liquid_volume != 0]
    targets = [
        view for key, view in transition.parameters.materials_by_key.items() if TARGET & set(words.tokenize(key))
    ]
    full = [view for view in full if all(view is not target for target in targets)]
    if len(full) == 1:
        return full[0]
    shrunk = [view for view in full if (remainder := transition.find_output(view)) and _has_shrunk(remainder, view)]
    return shrunk[0] if len(shrunk) == 1 else None


def find_solvent(transition: Transition) -> MaterialView | None:
    """Return the material that is added to the samples: named by a parameter, else the only solvent by name."""
    if (named_solvent := transition.parameters.find_material(SOLVENT)) is not None:
        return named_solvent
    filled = [view for view in transition.inputs if not view.is_empty_vessel]
    solvents = [view for view in filled if words.SOLVENTS & set(view.name_words)]
    return solvents[0] if len(solvents) == 1 and len(filled) > 1 else None


def _has_shrunk(after: MaterialView, before: MaterialView) -> bool:
    return (
        after.liquid_volume is not None
        and before.liquid_volume is not None
        and after.liquid_volume < before.liquid_volume
    )
