"""The roles of the laboratory, and a rater, played by a language model.

Each role builds a prompt (`prompts/`), asks a provider, and reads the reply (`replies/`), with a bounded number of
repair turns. A reply is hostile text until it has been read; what cannot be read is an error of `errors`.

May import: simulation.lab, simulation.checker, simulation.providers.

Without Django.
"""

from simulation.llm.errors import NoUsableAnswer, Refusal, TooLong

__all__ = ["NoUsableAnswer", "Refusal", "TooLong"]
