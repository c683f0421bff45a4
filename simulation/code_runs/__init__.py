"""Replication tasks in the database, and the units of code episodes.

`tasks` loads task folders; `stored_trees` stores workspaces by content; `conditions` are what a code episode is run with.

A worker may die at any instruction. A sandbox changes nothing outside itself, so the next worker runs it again on the same workspace.

May import: simulation.casts, simulation.lab, simulation.models, simulation.replication.
"""
