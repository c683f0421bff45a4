"""Copies of the database: made on SQLite and PostgreSQL, and opened beside the site's own.

Backups and blinding audits build on it. It reads no table of either app.

May import: wetbench_site.
"""
