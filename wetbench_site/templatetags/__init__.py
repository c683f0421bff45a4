"""Template tags that pages of both apps use."""
