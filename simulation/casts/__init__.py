"""Casts, language models, prices, prompts, and the expected cost of a run.

A run stores its configuration (`run_config`) when it is created, so that later changes of models, prices or prompts
do not affect it. `casting` creates the objects that run the roles; `cast_availability` lists the casts and whether
each can run here; `load_files` loads the data files.

May import: simulation.lab, simulation.llm, simulation.models, simulation.offline, simulation.providers, simulation.replication.
"""

from simulation.casts.run_config import RoleConfig, RunConfig

__all__ = ["RoleConfig", "RunConfig"]
