"""Pages of accounts: signing in, password, two-factor authentication, sessions, profile and API tokens."""
