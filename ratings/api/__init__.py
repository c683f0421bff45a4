"""The read API: what pages and files show, for programs, page by page.

Nothing is changed through it. Tokens narrow what their user may read.

May import: ratings.exchange, ratings.models, ratings.protocol, ratings.results, ratings.studies, simulation.lab,
simulation.models, wetbench_site.
"""
