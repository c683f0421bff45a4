"""Files that enter or leave a study: imports of items and ratings, CSV exports, archives.

An import stores the whole file or nothing, and lists every problem. Every CSV file is written by `exports`.

May import: ratings.blinding, ratings.models, ratings.protocol, ratings.raters, ratings.results, ratings.stats,
ratings.studies, simulation.jobs, simulation.lab, simulation.models, wetbench_site.database.
"""
