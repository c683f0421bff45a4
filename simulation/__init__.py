"""Simulated laboratory work: episodes, the roles in them, and twins of their transitions."""
