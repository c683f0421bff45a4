"""Coefficients of agreement between raters, and of raters with themselves."""
