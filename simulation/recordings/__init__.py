"""Recordings: a run as a file, the same run played again from it, and attempts as trajectories.

May import: simulation.calls, simulation.casts, simulation.engine, simulation.lab, simulation.leases,
simulation.models, simulation.providers, simulation.runs.
"""
