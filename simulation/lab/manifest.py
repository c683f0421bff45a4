"""ManifestMaterials: an agent's request for more materials outside benchmarks, answered without a model call.

Only materials on the experiment's own list are provided, each once. The list contains no samples and no results.
"""

import re
from collections.abc import Sequence

from simulation.lab.actions import Action
from simulation.lab.materials import Inventory, NewMaterial
from simulation.lab.outcomes import Outcome, RejectedBy

MANIFEST = "ManifestMaterials"
_WORD = re.compile(r"[\w.%µ]+")


def fulfil_request(action: Action, offered: Sequence[NewMaterial], inventory: Inventory) -> Outcome:
    """Return an outcome with the offered materials that the request names and the bench lacks, or a rejection."""
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
    """Return whether a request contains every word of a material's name up to the first comma in the name."""
    request_words = {_stem_word(word) for word in _WORD.findall(request)}
    # The part after the first comma is a detail that a request need not repeat.
    return all(_stem_word(word) in request_words for word in _WORD.findall(name.partition(",")[0]))


def _stem_word(word: str) -> str:
    return word.lower().strip(".").removesuffix("s")  # singular and plural
