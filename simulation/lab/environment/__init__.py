"""The laboratory as a Gymnasium environment.

`env` runs episodes of one experiment; `spaces` defines the spaces of its actions and observations.
"""
