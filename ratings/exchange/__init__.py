"""What enters and leaves a study as a file: imports of items and ratings, CSV exports, archives.

An import takes all of a file or nothing, and lists every problem. Every CSV file is written by `exports`.

May import: ratings.blinding, ratings.models, ratings.protocol, ratings.raters, ratings.results, ratings.stats,
ratings.studies, simulation.jobs, simulation.lab, simulation.models.
"""
