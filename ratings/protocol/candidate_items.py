"""A candidate with everything a study needs to make it an item."""

from typing import Any, NamedTuple

from ratings.blinding import Payload
from ratings.protocol.planning import Candidate


class CandidateItem(NamedTuple):
    """A candidate with the payload raters will see. `origin` has the fields of its ItemSource that the candidate
    lacks.
    """

    candidate: Candidate
    payload: Payload
    context: dict[str, Any]
    origin: dict[str, Any]
    screen: int = 0  # in a crossover of screens: which of the two screens (1 or 2) shows the item
