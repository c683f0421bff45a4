"""Raters: invitations, e-mail, practice, feedback and erasure; simulated raters and machines that rate.

Simulated raters answer through the same functions as people. Ratings by machines are in tables of their own
(`machines/`).

May import: ratings.accounts, ratings.blinding, ratings.models, ratings.protocol, ratings.rating, ratings.studies,
simulation.calls, simulation.casts, simulation.checker, simulation.engine, simulation.jobs, simulation.leases,
simulation.llm, simulation.models, simulation.providers, simulation.runs.
"""
