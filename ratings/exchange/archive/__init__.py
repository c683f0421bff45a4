"""The archive of a study: all its files in one zip or folder. An unchanged study gives the same bytes."""
