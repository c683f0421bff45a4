"""Middleware: what applies to every request before a view sees it.

May import: wetbench_site.
"""
