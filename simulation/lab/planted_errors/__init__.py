"""What is visible of a planted error: words that reveal it, and whether the difference is obvious or subtle."""
