"""Imports of items and ratings collected elsewhere. Files are parsed strictly and imported completely or not at all."""

from ratings.exchange.imports.item_imports import ImportRefused

__all__ = ["ImportRefused"]
