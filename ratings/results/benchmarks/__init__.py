"""Benchmarks: comparisons of agents over a frozen set of episodes."""

# Version of the document. Increase it with every change of what is computed or how it is written.
DOCUMENT_VERSION = 7
SEED, RESAMPLES = 0, 10_000  # also used for the p-values of differences
