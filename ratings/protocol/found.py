"""What a study could take as an item, wherever it comes from."""

from typing import Any, NamedTuple

from ratings.blinding import Payload
from ratings.protocol.planning import Candidate


class Found(NamedTuple):
    """A candidate with what raters will see of it; `origin` are the fields of its ItemSource that the candidate lacks."""

    candidate: Candidate
    payload: Payload
    context: dict[str, Any]
    origin: dict[str, Any]
    screen: int = 0  # of a crossover of screens: which of the two it is shown on
