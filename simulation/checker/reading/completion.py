"""Fill the gaps of a material's properties with what its name states."""

from dataclasses import replace

from simulation.checker import chemistry
from simulation.checker.reading import names, properties, units, vessels, words
from simulation.checker.reading.leaves import Leaf
from simulation.checker.reading.properties import MaterialView

# Keys whose volumes and masses are not those of the content.
_OTHER_KEYS = (
    vessels.VESSEL_KEYS
    | properties.CONTENTS
    | words.word_set("capacity container vessel size dead minimum maximum molar rating")
)


_LABEL_KEYS = words.word_set("label name title identity description what etikett etiqueta etiquette")


# Keys of sentences about something else than what is in the vessel now.
_ELSEWHERE = words.word_set(
    "note remark comment history plan use protocol storage vessel container label purpose made from before origin source batch expiry wash "
    "bed sediment height calculation step log dilution supplier lot instruction next"
)


def _is_sentence(leaf: Leaf) -> bool:
    """Return whether a leaf is a sentence about what is in the vessel now."""
    is_long = isinstance(leaf.value, str) and len(leaf.value.split()) >= 4 and len(leaf.value) < 200
    return is_long and not leaf.word_set & _ELSEWHERE and "#" not in leaf.words


def _add_sentences(view: MaterialView, stated: names.NameReading) -> names.NameReading:
    """Return what a name states with what only a sentence states: "how much: 5 millilitres in a 15 mL tube"."""
    for leaf in filter(_is_sentence, view.leaves):
        read = names.read_name(leaf.value_text)
        # "3 mL of KCl stock (2 M) + 10 mL of buffer" is a recipe, and its concentrations are those of the parts.
        if len(units.find_amounts(leaf.value_text, "volume")) > 1:
            read = read._replace(concentrations={})
        # A sentence need not say which of several kinds of cells or particles it counts.
        dissolved = {name: a for name, a in read.concentrations.items() if name and a.dimension != "number_density"}
        read = read._replace(concentrations=dissolved)
        updates = {
            key: getattr(read, key)
            for key in ("volume", "mass", "container", "concentrations")
            if getattr(read, key) and not getattr(stated, key)
        }
        stated = stated._replace(**updates)
    return stated


def complete_from_name(view: MaterialView, has_new_name: bool = True) -> MaterialView:
    """Return a material with the quantities that only its name states.

    Without a new name, an output may have the name that its input got from an earlier volume, which is no evidence.
    """
    if view.is_unlimited or not view.name:
        return view
    stated = names.read_name(view.name)
    if not has_new_name:
        stated = stated._replace(volume=None, mass=None)
    # A label is another name.
    labels = [leaf.value_text for leaf in view.leaves if leaf.word_set & _LABEL_KEYS and isinstance(leaf.value, str)]
    for label in labels if not stated.concentrations else ():
        stated = stated._replace(concentrations=names.read_name(label).concentrations)
    stated = _add_sentences(view, stated)
    volume, mass, phase = view.volume, view.mass, view.phase
    # "Well B3, 250 µL" and "crystal violet, 5 mL" are neither empty vessels nor crystals, whatever their other words.
    if (
        stated.volume is not None
        and phase in (words.EMPTY, words.SOLID)
        and phase not in set(words.tokenize(view.name))
    ):
        has_stated_phase = any(
            set(leaf.own_words) & {"phase", "state", "form", "content", "empty"} for leaf in view.leaves
        )
        phase = phase if has_stated_phase else ""
    has_amount = any(
        leaf.parse_amount("volume", "mass") and not leaf.word_set & _OTHER_KEYS and not _is_sentence(leaf)
        for leaf in view.leaves
    )
    if not has_amount and volume is None and mass is None and phase != words.EMPTY:
        volume, mass = stated.volume, stated.mass if stated.volume is None else None
        phase = words.SOLID if mass is not None and not phase else phase
    container = view.container or stated.container
    concentrations, is_named = view.concentrations, False
    # A powder may be named after the solution that it is weighed for.
    if not concentrations and mass is None and (volume is not None or stated.volume is not None):
        concentrations = {
            chemistry.name_component(component): amount for component, amount in stated.concentrations.items()
        }
        is_named = bool(concentrations)
    return replace(
        view,
        volume=volume,
        mass=mass,
        phase=phase,
        container=container,
        concentrations=concentrations,
        has_named_concentration=is_named,
    )
