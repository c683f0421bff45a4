"""Relations between claims, and between claims and the action: sums, shares, weighings, recipes, draws, ages, settings repeated, limits.

May import: simulation.checker, simulation.lab.
"""
