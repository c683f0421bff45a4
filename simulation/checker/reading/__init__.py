"""Parse a transition for the checks: words, units, properties, and which output continues which input.

These modules only parse and do not judge. What cannot be parsed is unknown, and a check that needs it is undecidable.
"""
