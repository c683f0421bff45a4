"""The kinds of jobs of this app and their modules, which are imported when a job of the kind first runs.

A handler may return `said` (a sentence: what was done) and `href` with `label` (a link to the result), which the job's page
shows. This module imports no other module of the app than the registry.
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
    """Register all kinds of jobs. The app calls it at its start."""
    for kind, title, module in KINDS:
        job_kinds.declare(kind, title, module)
