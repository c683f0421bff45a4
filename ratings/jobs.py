"""The kinds of jobs of this app and their modules, which are imported when a job of the kind first runs.

A handler may return `said` (a sentence: what was done) and `href` with `label` (a link to the result), which the job's page
shows. Of the project's modules, this one imports only the registry.
"""

from simulation.jobs import jobs

JOB_KINDS = (
    ("analysis", "Analysis of a study", "ratings.web.results.rendered_results"),
    ("audit", "Blinding audit", "ratings.studies.blinding_audit.audit_runner"),
    ("benchmark", "Benchmark", "ratings.results.benchmarks.benchmark_job"),
    ("comparison", "Comparison of two studies", "ratings.results.analyses.analysis_job"),
    ("demo", "Example data", "ratings.demonstration"),
    ("export", "Export of a study", "ratings.exchange.archive.build"),
    ("figure", "Figure for print", "ratings.results.figure_job"),
    ("import_items", "Import of items", "ratings.exchange.imports.import_jobs"),
    ("import_ratings", "Import of ratings", "ratings.exchange.imports.import_jobs"),
    ("machine_rating", "Ratings by a machine", "ratings.raters.machine_raters"),
    ("opening", "Opening of a study", "ratings.studies.opening_jobs"),
)


def register_job_kinds() -> None:
    """Register all kinds of jobs. The app calls it at its start."""
    for kind, title, module in JOB_KINDS:
        jobs.declare_kind(kind, title, module)
