"""Rule-based agents: they restore hidden functions, change them or leave them hidden. Pages label them as rules.

`offline_agents` defines them; `playing` runs one episode of any agent without a database; `environment` does the same as a Gymnasium
environment; `trajectories` writes episodes as JSON and replays them.
"""

from simulation.replication.agents.offline_agents import OFFLINE_AGENTS, build_offline_agent

__all__ = ["OFFLINE_AGENTS", "build_offline_agent"]
