"""A study as files to take away. An unchanged study gives the same bytes."""
