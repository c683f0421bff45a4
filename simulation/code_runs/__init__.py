"""Replication tasks in the database, and the units of code episodes.

`tasks` loads task folders; `stored_trees` stores workspaces by content; `gold` computes and stores what unmasked code computes;
`masks` stores drawn masks and their validation; `creation` creates and retries code episodes; `code_units` runs one unit of one: at most
one call of a model or one sandbox; `code_gradings` has the stages of a grading; `sandboxes` runs a command in a sandbox and records it.

A worker may die at any instruction. A sandbox changes nothing outside itself, so the next worker runs it again on the same workspace.

May import: simulation.calls, simulation.casts, simulation.lab, simulation.leases, simulation.models, simulation.replication, simulation.runs,
wetbench_site.
"""
