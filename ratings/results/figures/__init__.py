"""Figures, drawn only from the tables of an analysis."""
