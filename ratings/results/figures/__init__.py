"""Figures, drawn from the tables of an analysis and from nothing else."""
