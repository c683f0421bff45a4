"""Pages of raters: their studies, the guide, practice, one item after another, and their own answers."""
