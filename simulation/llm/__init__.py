"""The roles of the laboratory, and a model rater, implemented with a language model.

Each role builds a prompt (`prompt_sets`, `prompt_data`), sends it to a provider, and parses the reply, with a limited
number of repair turns (`conversation`). A reply is hostile text until it has been parsed; one that cannot be parsed raises
an error of `errors`. The built-in prompt sets are the folders in `prompts/`.

May import: simulation.lab, simulation.checker, simulation.providers.

Without Django.
"""

from simulation.llm.errors import NoUsableAnswer, Refusal, TooLong

__all__ = ["NoUsableAnswer", "Refusal", "TooLong"]
