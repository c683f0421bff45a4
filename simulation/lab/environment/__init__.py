"""The laboratory as a Gymnasium environment.

`env` steps through one attempt at an experiment; `spaces` has the JSON space of its actions and observations.
"""
