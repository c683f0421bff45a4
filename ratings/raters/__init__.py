"""Raters: invitations, e-mail, practice, feedback and review, erasure; simulated raters and model raters.

Simulated raters answer through the same functions as people. Ratings by models are in separate tables
(`machines/`).

May import: ratings.accounts, ratings.blinding, ratings.models, ratings.protocol, ratings.rating, ratings.studies,
simulation.calls, simulation.casts, simulation.checker, simulation.engine, simulation.jobs, simulation.lab,
simulation.leases, simulation.llm, simulation.models, simulation.providers, simulation.runs.
"""
