"""Prompt sets: the texts sent to language models, and how the data in them is delimited.

The built-in sets are folders of text files beside these modules.
"""
