"""Integrity checks of the stored rows, which `manage.py verify` runs."""
