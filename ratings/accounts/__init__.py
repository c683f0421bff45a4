"""Accounts: signing in by password or link, two-factor authentication, sessions, throttling and re-authentication.

It is about people and their browsers. Of studies it reads only exports in the log (`export_quota`).

May import: ratings.models, simulation.models, wetbench_site.
"""

from ratings.accounts.reauthentication_pages import require_recent_for_post
from ratings.accounts.sessions import SessionStore

__all__ = ["SessionStore", "require_recent_for_post"]
