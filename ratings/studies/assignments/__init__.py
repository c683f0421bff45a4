"""Raters of a running study: adding and removing them, and reassigning work that nobody has seen."""
