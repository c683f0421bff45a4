"""Tools for the whole database, above both apps: `verify/` checks the stored rows, `backup/` saves and restores them.

May import: simulation, ratings, wetbench_site.
"""
