"""The read-only HTTP API: studies, items, ratings, statistics and episodes, in pages.

A token can read at most what its user can read; its scopes narrow that further.

May import: ratings.exchange, ratings.models, ratings.protocol, ratings.results, ratings.studies, simulation.lab,
simulation.models, wetbench_site.
"""
