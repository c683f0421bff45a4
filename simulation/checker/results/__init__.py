"""Results that a record states, checked against the numbers of the record that they come from: means, ratios, dilutions, calculations.

May import: simulation.checker, simulation.lab.
"""
