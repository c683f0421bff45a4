"""Checks of the rows of the laboratory and of the database itself."""
