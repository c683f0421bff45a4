"""Every kind of job of the rating room, with the module that does it: imported when a job of that kind is first played.

One line for each. What a handler returns as the job's result may hold `said` (one sentence: what was done), and
`href` with `label` (where to see it): the job's page shows them. Nothing of ours is imported here but the table of kinds.
"""

from simulation.jobs import job_kinds

KINDS = (
    ("analysis", "Analysis of a study", "ratings.results.analyses.playing"),
    ("audit", "Blinding audit", "ratings.studies.blinding_audit.audit_jobs"),
    ("benchmark", "Benchmark", "ratings.results.benchmarks.playing"),
    ("comparison", "Comparison of two studies", "ratings.results.comparison_work"),
    ("export", "Export of a study", "ratings.exchange.archive.playing"),
    ("figure", "Figure for print", "ratings.results.figure_work"),
    ("import_items", "Import of items", "ratings.exchange.imports.import_jobs"),
    ("import_ratings", "Import of ratings", "ratings.exchange.imports.import_jobs"),
    ("machine_rating", "Ratings by a machine", "ratings.raters.machines.machine_work"),
)


def declare() -> None:
    """Make them all known; called as the app starts."""
    for kind, title, module in KINDS:
        job_kinds.declare(kind, title, module)
