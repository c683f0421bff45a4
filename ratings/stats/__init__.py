"""Compute the statistics of ratings: columns in, estimates with intervals out.

Every function names the source of its formula. A number that cannot be computed is replaced by the reason, in words.
Nothing here reads a database.

May import: nothing else of ours.

Without Django.
"""

from ratings.stats.estimates import Estimate

__all__ = ["Estimate"]
