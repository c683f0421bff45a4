"""Checks of amounts: what is moved, mixed, diluted or weighed is neither made nor lost."""
