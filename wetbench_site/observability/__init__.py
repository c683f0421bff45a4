"""Logs, redaction, metrics, health and readiness.

Apps register their own metrics and readiness checks; nothing here imports them.

May import: wetbench_site.
"""
