"""Plan a study: precision with more ratings, precision and power before the first rating, and sample sizes.

May import: nothing else of ours.
"""
