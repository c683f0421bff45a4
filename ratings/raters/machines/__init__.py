"""Machines as raters: a language model or the checker, given the same frozen payload as people."""
