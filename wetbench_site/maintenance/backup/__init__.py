"""Backups: the whole database as one file with a manifest, and such a file as the database again."""
