"""The laboratory for agents that learn: the Gymnasium environment, tools as JSON schemas, episodes as chat messages.

`gym_env` and `text_space` need gymnasium; the other modules need nothing outside the standard library.
"""
