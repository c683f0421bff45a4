"""Results of an unblinded study: rating rows, the stored analysis, benchmarks and figures.

`rows` joins ratings to the sources of their items, and raises `SealedError` before unblinding. `analyses/` computes
one document that pages, files and figures read. Only `figures/` imports what draws.

May import: ratings.blinding, ratings.models, ratings.protocol, ratings.raters, ratings.stats, ratings.studies,
simulation.casts, simulation.jobs, simulation.lab, simulation.models, simulation.runs.
"""

from ratings.results.rows import BlindRow, RatingRow, blind_rows, rating_rows

__all__ = ["BlindRow", "RatingRow", "blind_rows", "rating_rows"]
