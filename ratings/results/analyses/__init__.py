"""The analysis of a study: computed once for each state of its ratings, and stored as one document."""
