"""Format counts with their nouns."""


def format_count(number: int, noun: str) -> str:
    """Return a number with its noun, such as "1 item", "2 items" or "2,000 items"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"
