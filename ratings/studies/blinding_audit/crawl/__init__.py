"""What each rater's browser is sent, with the true sources and with exchanged ones."""
