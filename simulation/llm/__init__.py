"""The roles of the laboratory, agents that edit code, and a model rater, implemented with a language model.

Each role builds a prompt (`prompt_sets`, `prompt_data`), sends it to a provider, and parses the reply, with a limited
number of repair turns (`conversation`). A reply is hostile text until it has been parsed. The built-in prompt sets are the folders in `prompts/`.
`coding/` has the agents of replication tasks and their helper.

May import: simulation.lab, simulation.checker, simulation.providers, simulation.replication.

Without Django.
"""

from simulation.llm.conversation import NoUsableAnswer, Refusal, TooLong

__all__ = ["NoUsableAnswer", "Refusal", "TooLong"]
