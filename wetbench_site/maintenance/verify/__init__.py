"""Promises of the stored rows, derived again from the rows: what `manage.py verify` checks."""
