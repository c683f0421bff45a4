"""Agents that are rules: they restore, vary or leave hidden functions. They are labelled as rules wherever they appear.

`offline_agents` has them, `playing` plays one episode of any agent without a database, `environment` is the same as a Gymnasium
environment.
"""

from simulation.replication.agents.offline_agents import OFFLINE_AGENTS, build_offline_agent

__all__ = ["OFFLINE_AGENTS", "build_offline_agent"]
