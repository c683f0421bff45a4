"""The study protocol and the plan of who rates what.

`study_protocol` declares the document and lists everything that is wrong with one, with the rules of `document_rules`.
`draw_items`, `assign_items` and `balance_loads`
choose items and assign them to raters: the same seed gives the same plan. `reference` defines what the
verdicts on an item are compared with.

May import: ratings.blinding, wetbench_site.

Without Django.
"""

from ratings.protocol.plan_types import Arm, CandidateItem, PlanError
from ratings.protocol.study_protocol import KnownNames, ProtocolError, StudyProtocol

__all__ = ["Arm", "CandidateItem", "KnownNames", "PlanError", "ProtocolError", "StudyProtocol"]
