"""Strict parsers for replies of language models: an outcome, an action or a verdict, or everything that is wrong with it."""
