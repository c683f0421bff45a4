"""Tools for the whole database, above both apps: `verify/` checks its promises, `backup/` saves and restores it.

May import: simulation, ratings, wetbench_site.
"""
