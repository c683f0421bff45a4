"""Results: rating rows, the stored analysis of an unblinded study, benchmarks and figures.

`rating_rows` joins ratings to the sources of their items, and raises `SealedError` before unblinding. `analyses/`
computes the document from which pages, files and figures are built. Only `figures/` imports the plotting libraries.
`empty_cells` forecasts, before a study opens, which results its plan would leave empty. `study_log` describes the events of
a study.

May import: ratings.blinding, ratings.models, ratings.protocol, ratings.raters, ratings.stats, ratings.studies,
simulation.casts, simulation.jobs, simulation.lab, simulation.models, simulation.runs.
"""
