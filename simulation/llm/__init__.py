"""The roles of the laboratory, and a model rater, implemented with a language model.

Each role builds a prompt (`prompts/`), sends it to a provider, and parses the reply (`replies/`), with a limited number of
repair turns. A reply is hostile text until it has been parsed; one that cannot be parsed raises an error of `errors`.

May import: simulation.lab, simulation.checker, simulation.providers.

Without Django.
"""

from simulation.llm.errors import NoUsableAnswer, Refusal, TooLong

__all__ = ["NoUsableAnswer", "Refusal", "TooLong"]
