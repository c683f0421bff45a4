"""Eight agents that cheat, each in its own way, to show that none of them is graded as solved."""

from simulation.replication.grading.cheats.agents import CHEATS, Cheat, CheatKnowledge
from simulation.replication.grading.cheats.trying import CheatResult, prepare_trial, try_cheat, try_cheats

__all__ = ["CHEATS", "Cheat", "CheatKnowledge", "CheatResult", "prepare_trial", "try_cheat", "try_cheats"]
