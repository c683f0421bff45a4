"""The laboratory as a Gymnasium environment.

`env` runs one episode of an experiment; `spaces` has the JSON space of its actions and observations.
"""
