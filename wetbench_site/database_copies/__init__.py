"""Copies of the database, created on SQLite and PostgreSQL and opened next to the site's own.

Backups and blinding audits use it. It reads no tables of the apps.

May import: wetbench_site.
"""
