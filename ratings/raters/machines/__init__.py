"""Model raters: a language model or the checker rates the same frozen payload as people."""
