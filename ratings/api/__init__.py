"""The read-only HTTP API: studies, items, ratings, statistics and episodes, paginated.

Tokens narrow what their user may read.

May import: ratings.exchange, ratings.models, ratings.protocol, ratings.results, ratings.studies, simulation.lab,
simulation.models, wetbench_site.
"""
