"""Protocols with hidden steps: `masks` draws which steps are hidden, `written_protocols` writes what an agent reads."""
