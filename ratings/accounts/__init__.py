"""Accounts: signing in by password or link, two-factor authentication, sessions, throttling and re-authentication.

It is about people and their browsers. The only study data that it reads are the logged exports (`sessions`).

May import: ratings.models, simulation.models, wetbench_site.
"""

from ratings.accounts.reauthentication import require_recent_for_post
from ratings.accounts.sessions import SessionStore

__all__ = ["SessionStore", "require_recent_for_post"]
