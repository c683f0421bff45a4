"""Accounts: signing in by password or link, two-factor authentication, sessions, throttling and re-authentication.

It knows people and their browsers, and nothing of studies.

May import: ratings.models, simulation.models, wetbench_site.
"""

from ratings.accounts.confirming import fresh_to_change
from ratings.accounts.sessions import SessionStore

__all__ = ["SessionStore", "fresh_to_change"]
