"""Agreement between raters, and of raters with themselves."""
