"""The replication of the WetBench paper: its runs, studies and benchmark, and a comparison with the published numbers.

May import: ratings.demonstration, ratings.models, ratings.protocol, ratings.raters, ratings.results, ratings.stats,
ratings.studies, simulation.calls, simulation.casts, simulation.engine, simulation.lab, simulation.models,
simulation.providers, simulation.runs, simulation.scripted_server.
"""
