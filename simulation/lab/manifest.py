"""ManifestMaterials: what a laboratory may request outside a benchmark. The environment answers without a model call.

Only entries of the experiment's list are provided, each once: never a sample, never a result.
"""

import re
from collections.abc import Sequence

from simulation.lab.actions import Action
from simulation.lab.materials import Inventory, NewMaterial
from simulation.lab.outcomes import Outcome, RejectedBy

MANIFEST = "ManifestMaterials"
_WORD = re.compile(r"[\w.%µ]+")


def fulfil_request(action: Action, offered: Sequence[NewMaterial], inventory: Inventory) -> Outcome:
    """Return the entries of the list that the request names, or a rejection that lists what is available."""
    request = str(action.parameters.get("request", ""))
    # Compared by name: agents never see the keys of the data file.
    requested = [draft for draft in offered if _is_named_in(request, draft.name)]
    on_bench = {material.name for material in inventory}
    new = [draft for draft in requested if draft.name not in on_bench]
    if new:
        message = f"Given from the list of this experiment: {', '.join(draft.name for draft in new)}."
        return Outcome(True, tuple(new), reasoning=message, fidelity="bookkeeping only")
    if requested:
        reason = f"already on the bench: {', '.join(draft.name for draft in requested)}"
    else:
        names = "; ".join(draft.name for draft in offered) or "nothing at all"
        reason = f"not on the list: what can be asked for is {names}"
    return Outcome.make_rejected(reason, RejectedBy.CATALOGUE)


def _is_named_in(request: str, name: str) -> bool:
    """Return whether a request contains every word of a name up to its first comma."""
    request_words = {_stem_word(word) for word in _WORD.findall(request)}
    # The part after the first comma is a detail that a request need not repeat.
    return all(_stem_word(word) in request_words for word in _WORD.findall(name.partition(",")[0]))


def _stem_word(word: str) -> str:
    return word.lower().strip(".").removesuffix("s")  # singular and plural
