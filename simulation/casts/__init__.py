"""Who plays the roles: casts, language models, prices, prompts, and what a run would cost.

A run stores its configuration (`setups`) when it is created, so that later changes of models, prices or prompts do
not reach it. `casting` builds the objects that play; `roster` lists the casts and says whether each can play here;
`fixtures` loads the data files.

May import: simulation.lab, simulation.llm, simulation.models, simulation.offline, simulation.providers.
"""

from simulation.casts.setups import Player, Setup

__all__ = ["Player", "Setup"]
