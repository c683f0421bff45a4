"""The study protocol and the plan of who rates what.

`study_protocol` parses the document, `document_errors` lists everything that is wrong with it, and `planning/` chooses items
and assigns them to raters: the same seed gives the same plan. `reference` defines what the verdicts on an item are
compared with.

May import: ratings.blinding.

Without Django.
"""

from ratings.protocol.found import Found
from ratings.protocol.planning import Arm, PlanError
from ratings.protocol.protocols import ProtocolError, StudyProtocol

__all__ = ["Arm", "Found", "PlanError", "ProtocolError", "StudyProtocol"]
