"""Numbers and rows named on a command line."""

from argparse import ArgumentTypeError
from collections.abc import Callable
from uuid import UUID

from django.core.management.base import CommandError

from simulation.models import Run


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


def run_named(code: str) -> Run:
    """The run of that code; CommandError, which ends a command with 2, if there is none."""
    try:
        return Run.objects.get(code=UUID(code))
    except (ValueError, Run.DoesNotExist):
        raise CommandError(
            f"There is no run {code!r}; its page and the order that made it show its code", returncode=2
        ) from None
