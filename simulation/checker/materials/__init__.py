"""Checks of materials: containers, physical states, ages, ranges, and how many materials come back."""
