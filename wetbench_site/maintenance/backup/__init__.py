"""Backups: the whole database as one file with a manifest, and the restore of such a file."""
