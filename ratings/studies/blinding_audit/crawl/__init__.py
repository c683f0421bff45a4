"""Request and check what each rater's browser is sent, with the true sources of items and with swapped ones."""
