"""A study as files to take away: one list of entries, written into a zip or a folder, the same bytes each time."""
