"""The study document and the plan of who rates what.

`protocols` reads a document, `protocol_problems` lists everything that is wrong with it, `planning/` chooses items
and deals them out: the same seed gives the same plan. `reference` states what the verdicts on an item are compared
with.

May import: ratings.blinding.

Without Django.
"""

from ratings.protocol.found import Found
from ratings.protocol.planning import Arm, PlanError
from ratings.protocol.protocols import ProtocolError, StudyProtocol

__all__ = ["Arm", "Found", "PlanError", "ProtocolError", "StudyProtocol"]
