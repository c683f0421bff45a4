"""The three roles spoken through a language model. No Django."""
