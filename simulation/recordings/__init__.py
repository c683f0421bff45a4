"""Recordings: a run saved as a file and replayed (`run_recordings`), and episodes as trajectories (`trajectories`).

May import: simulation.calls, simulation.casts, simulation.engine, simulation.lab, simulation.leases,
simulation.models, simulation.providers, simulation.runs.
"""
