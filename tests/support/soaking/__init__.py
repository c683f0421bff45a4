"""Raters at work on a site that is struck down again and again: what they do, what is struck, and what must hold after."""
