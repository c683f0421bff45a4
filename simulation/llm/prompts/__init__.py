"""Prompt sets: the texts that language models are given, and how the data in them is delimited.

The built-in sets are folders of text files beside these modules.
"""
