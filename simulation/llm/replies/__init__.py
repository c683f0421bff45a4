"""Replies of language models, read strictly: an outcome, an action or a verdict, or everything that is wrong with it."""
