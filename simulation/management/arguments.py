"""Numbers on a command line."""

from argparse import ArgumentTypeError
from collections.abc import Callable


def between(low: int, high: int) -> Callable[[str], int]:
    """Reads a whole number in these bounds; anything else is a bad argument, which ends a command with 2."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = low - 1
        if not low <= number <= high:
            raise ArgumentTypeError(f"{text!r} is no whole number from {low} to {high}")
        return number

    return read
