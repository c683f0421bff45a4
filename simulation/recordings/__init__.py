"""Recordings: runs saved in files and replayed (`run_recordings`), and episodes as lines for training.

`trajectories` reads those of the laboratory without Django; `code_trajectories` writes code episodes.

May import: simulation.calls, simulation.casts, simulation.code_runs, simulation.engine, simulation.lab, simulation.leases,
simulation.models, simulation.providers, simulation.replication, simulation.runs, wetbench_site.
"""
