"""Which items a study takes from the pool, and who rates which in what order. Pure: the same seed, the same plan."""

from ratings.planning.arms import arm_of_seat, arms_by_item, every_arm
from ratings.planning.assigning import assign, matrix
from ratings.planning.choosing import choose, distinct
from ratings.planning.crossover import assign_sessions, choose_cases, count_alike
from ratings.planning.dealing import Hand, deal_more, raters_needed
from ratings.planning.moving import Move, even_out
from ratings.planning.nouns import Alike, Arm, Candidate, Matrix, Place, PlanError, Planned, Row, Source
from ratings.planning.ordering import lay_out

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
