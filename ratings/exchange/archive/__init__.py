"""A study as files to take away: the same bytes each time."""
