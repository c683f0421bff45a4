"""A transition as the checks read it: words, units, properties, and which material continues which.

Nothing here judges. What cannot be read stays unknown, and a check that needs it is undecidable.
"""
