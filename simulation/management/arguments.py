"""Parse numbers and run codes from the command line."""

from argparse import ArgumentTypeError
from collections.abc import Callable
from uuid import UUID

from django.core.management.base import CommandError

from simulation.models import Run


def integer_between(low: int, high: int) -> Callable[[str], int]:
    """Return a parser of integers within these bounds. Other text is a bad argument, and the command exits with 2."""

    def parse_integer(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = low - 1
        if not low <= number <= high:
            raise ArgumentTypeError(f"{text!r} is not a whole number from {low} to {high}")
        return number

    return parse_integer


def get_run(code: str) -> Run:
    """Return the run of that code. Raise CommandError, and exit with 2, if there is none."""
    try:
        return Run.objects.get(code=UUID(code))
    except (ValueError, Run.DoesNotExist):
        raise CommandError(
            f"There is no run {code!r}. The run's page shows its code, as does the command that created it",
            returncode=2,
        ) from None
