"""Checks of the rows of studies: assignments, ratings, items, events and stored documents."""
