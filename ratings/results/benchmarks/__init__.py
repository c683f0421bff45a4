"""Benchmarks: comparisons of agents over a frozen set of episodes."""

# Version of the document. Raise it with every change of what is computed or how it is written.
DOCUMENT_VERSION = 7
SEED, RESAMPLES = 0, 10_000  # the p-values of differences come from these resamples as well
