"""Accounts: signing in by password or link, two-factor authentication, sessions, throttling and re-authentication.

It is about people and their browsers. Of studies it reads only exports in the log (`export_quota`).

May import: ratings.models, simulation.models, wetbench_site.
"""

from ratings.accounts.confirming import fresh_to_change
from ratings.accounts.sessions import SessionStore

__all__ = ["SessionStore", "fresh_to_change"]
