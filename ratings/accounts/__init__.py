"""Accounts: signing in by password or link, two-factor authentication, sessions, throttling and re-authentication.

It is about people and their browsers, and reads no study data.

May import: ratings.models, wetbench_site.
"""

from ratings.accounts.reauthentication import require_recent_for_post
from ratings.accounts.sessions import SessionStore

__all__ = ["SessionStore", "require_recent_for_post"]
