"""The rows of studies: studies, raters, items and answers. Import every model from here.

The origin of an item is stored in `ItemSource` and `ImportedItem` alone. No page that shows an unrated item reads
them to render it.

May import: ratings.protocol, simulation.models.
"""

from ratings.models.analyses import (
    Analysis,
    Benchmark,
    MachineRater,
    MachineRating,
    RenderedResults,
    StoredFigure,
)
from ratings.models.answers import Assignment, InitialRating, PracticeAnswer, Rating, RatingEvent, UnsavedAnswer
from ratings.models.items import ImportedItem, Item, ItemSource, Quarantine, RenderedItem
from ratings.models.people import (
    ApiToken,
    BrowserSession,
    Invitation,
    InvitationText,
    Membership,
    MembershipChange,
    Rater,
    RaterProfile,
    RightsPeriod,
    SignInLink,
)
from ratings.models.studies import EVIDENCE, TRANSITION, BlindingAudit, GuideVersion, PublicPage, Study, StudyEvent

__all__ = [
    "EVIDENCE",
    "TRANSITION",
    "Analysis",
    "ApiToken",
    "Assignment",
    "Benchmark",
    "BlindingAudit",
    "BrowserSession",
    "GuideVersion",
    "ImportedItem",
    "InitialRating",
    "Invitation",
    "InvitationText",
    "Item",
    "ItemSource",
    "MachineRater",
    "MachineRating",
    "Membership",
    "MembershipChange",
    "PracticeAnswer",
    "PublicPage",
    "Quarantine",
    "Rater",
    "RaterProfile",
    "Rating",
    "RatingEvent",
    "RenderedItem",
    "RenderedResults",
    "RightsPeriod",
    "SignInLink",
    "StoredFigure",
    "Study",
    "StudyEvent",
    "UnsavedAnswer",
]
