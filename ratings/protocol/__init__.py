"""The study protocol and the plan of who rates what.

`study_protocol` parses the document, `document_errors` lists everything that is wrong with it, and `planning/`
chooses items and assigns them to raters: the same seed gives the same plan. `reference` defines what the verdicts on
an item are compared with.

May import: ratings.blinding.

Without Django.
"""

from ratings.protocol.candidate_items import CandidateItem
from ratings.protocol.planning import Arm, PlanError
from ratings.protocol.study_protocol import ProtocolError, StudyProtocol

__all__ = ["Arm", "CandidateItem", "PlanError", "ProtocolError", "StudyProtocol"]
