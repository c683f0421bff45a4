"""Checks of materials: containers, physical states, times, ranges, and the number of materials that come back."""
