"""Choose which items a study takes from the pool, and who rates which in what order. The same seed gives the same plan."""

from ratings.protocol.planning.arms import arm_of_seat, arms_by_item, every_arm
from ratings.protocol.planning.assigning import assign, matrix
from ratings.protocol.planning.choosing import choose, distinct
from ratings.protocol.planning.crossover import assign_sessions, choose_cases, count_alike
from ratings.protocol.planning.dealing import Hand, deal_more, raters_needed
from ratings.protocol.planning.moving import Move, even_out
from ratings.protocol.planning.nouns import Alike, Arm, Candidate, Matrix, Place, PlanError, Planned, Row, Source
from ratings.protocol.planning.ordering import lay_out

__all__ = [
    "Alike",
    "Arm",
    "Candidate",
    "Hand",
    "Matrix",
    "Move",
    "Place",
    "PlanError",
    "Planned",
    "Row",
    "Source",
    "arm_of_seat",
    "arms_by_item",
    "assign",
    "assign_sessions",
    "choose",
    "choose_cases",
    "count_alike",
    "deal_more",
    "distinct",
    "even_out",
    "every_arm",
    "lay_out",
    "matrix",
    "raters_needed",
]
