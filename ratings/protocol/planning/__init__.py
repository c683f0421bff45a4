"""Choose which items a study takes from the pool, and who rates which in what order. The same seed gives the same
plan.
"""

from ratings.protocol.planning.arms import arm_of_rater, assign_arms_by_item, list_arms
from ratings.protocol.planning.assign_items import build_matrix, plan_assignments
from ratings.protocol.planning.balance_loads import Workload, count_raters_needed, distribute_more
from ratings.protocol.planning.choose_items import choose_items, drop_duplicates
from ratings.protocol.planning.crossover_sessions import choose_cases, count_identical_cases, plan_sessions
from ratings.protocol.planning.item_order import order_items
from ratings.protocol.planning.move_to_newcomers import Move, move_to_newcomers
from ratings.protocol.planning.plan_types import (
    Arm,
    AssignmentMatrix,
    Candidate,
    IdenticalCases,
    MatrixRow,
    PlanError,
    PlannedAssignment,
    PlannedItem,
    Source,
)

__all__ = [
    "Arm",
    "AssignmentMatrix",
    "Candidate",
    "IdenticalCases",
    "MatrixRow",
    "Move",
    "PlanError",
    "PlannedAssignment",
    "PlannedItem",
    "Source",
    "Workload",
    "arm_of_rater",
    "assign_arms_by_item",
    "build_matrix",
    "choose_cases",
    "choose_items",
    "count_identical_cases",
    "count_raters_needed",
    "distribute_more",
    "drop_duplicates",
    "list_arms",
    "move_to_newcomers",
    "order_items",
    "plan_assignments",
    "plan_sessions",
]
