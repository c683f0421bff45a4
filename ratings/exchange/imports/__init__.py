"""Items and ratings from elsewhere, read strictly and imported whole."""

from ratings.exchange.imports.item_imports import ImportRefused

__all__ = ["ImportRefused"]
