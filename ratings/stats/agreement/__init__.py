"""Agreement of raters with each other, and of each rater with the same rater's repeated answers."""
