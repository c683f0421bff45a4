"""Programs that run in a sandbox to test it. Nothing imports them; `read_program` returns their text."""

from pathlib import Path


def read_program(name: str) -> bytes:
    """Return the source of the program `name`."""
    return Path(__file__).with_name(f"{name}.py").read_bytes()
