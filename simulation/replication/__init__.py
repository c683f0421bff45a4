"""Replication tasks: agents fill in masked code, a sandbox runs it, grading compares numbers on secret data.

`tasks/` reads task folders, draws masks and builds workspaces; `sandbox/` runs one isolated command; `agents/` are rules that edit
code; `grading/` runs an agent's function bodies in a clean checkout and compares plain numbers outside the sandbox. Gold values and gold
code never enter a sandbox in which an agent's code runs. Everything that a sandbox returns is hostile until `trees` has checked it.

May import: simulation.lab.errors, simulation.lab.environment.text_space.

Without Django.
"""
