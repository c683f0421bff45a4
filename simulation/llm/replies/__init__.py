"""Strict parsers for replies of language models.

Each returns the parsed reply or raises an error with every problem.
"""
