"""Format counts with their nouns."""


def format_count(number: int, noun: str) -> str:
    """Return "1 item", "2 items", "2,000 items"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"
