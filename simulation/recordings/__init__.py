"""Recordings: runs saved in files and replayed (`run_recordings`); `trajectories` reads trajectories without Django.

May import: simulation.calls, simulation.casts, simulation.engine, simulation.lab, simulation.leases,
simulation.models, simulation.providers, simulation.runs, wetbench_site.
"""
