"""Grading: extract the hidden functions' bodies, run them in a clean checkout, and compare numbers outside the sandbox."""
