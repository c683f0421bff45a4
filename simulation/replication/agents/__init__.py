"""Agents that are rules: they restore, vary or leave hidden functions. They are labelled as rules wherever they appear."""
