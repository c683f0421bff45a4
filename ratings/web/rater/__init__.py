"""Pages of raters: their studies, the guide, practice, item after item, and their own answers."""
