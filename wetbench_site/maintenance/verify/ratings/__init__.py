"""Checks of the rows of studies: assignments, answers, items, events and stored documents."""
