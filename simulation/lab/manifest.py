"""ManifestMaterials: what a laboratory outside a benchmark may ask for. The environment answers; no model is asked.

Only what the experiment's list offers is ever given, each thing once: never a sample, never a result.
"""

import re
from collections.abc import Sequence

from simulation.lab.actions import Action
from simulation.lab.materials import Draft, Inventory
from simulation.lab.outcomes import Outcome, RejectedBy

MANIFEST = "ManifestMaterials"
_WORD = re.compile(r"[\w.%µ]+")


def fulfil(action: Action, offered: Sequence[Draft], inventory: Inventory) -> Outcome:
    """The things of the list that the request names, or a rejection that says what there is."""
    request = str(action.parameters.get("request", ""))
    asked = [draft for draft in offered if _names(request, draft.name)]
    there = {material.name for material in inventory}
    new = [draft for draft in asked if draft.name not in there]
    if new:
        told = f"Given from the list of this experiment: {', '.join(draft.name for draft in new)}."
        return Outcome(True, tuple(new), reasoning=told, fidelity="bookkeeping only")
    if asked:
        reason = f"already on the bench: {', '.join(draft.name for draft in asked)}"
    else:
        names = "; ".join(draft.name for draft in offered) or "nothing at all"
        reason = f"not on the list: what can be asked for is {names}"
    return Outcome.rejected(reason, RejectedBy.CATALOGUE)


def _names(request: str, name: str) -> bool:
    """Whether a request holds every word of a thing's name up to its first comma."""
    asked = {_plain(word) for word in _WORD.findall(request)}
    return all(_plain(word) in asked for word in _WORD.findall(name.partition(",")[0]))


def _plain(word: str) -> str:
    return word.lower().strip(".").removesuffix("s")
