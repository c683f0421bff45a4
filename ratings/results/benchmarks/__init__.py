"""Benchmarks: agents compared over a frozen set of episodes."""

FORM = 6  # of the document; raised with every change of what is computed or how it is written down
SEED, RESAMPLES = 0, 10_000
