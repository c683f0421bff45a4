"""Checks of the laboratory's rows: episodes, steps, twins, calls, files and the database itself."""
