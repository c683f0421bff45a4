"""What commands share: arguments, errors that end a command, input files, and safe output of their content."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from django.core.management.base import CommandError, CommandParser, OutputWrapper

from simulation.management import local_address
from wetbench_site.text import format_count
from wetbench_site.validation import Problem


def add_study_argument(parser: CommandParser) -> None:
    parser.add_argument("study", metavar="STUDY", help="slug or code")


def add_url_option(parser: CommandParser) -> None:
    """Add the option for the base of the links that the command prints or sends."""
    help_text = "base of the links, unless WETBENCH_URL is set; default: the address that was served last"
    parser.add_argument("--url", default=local_address.read_address(), help=help_text)


@contextmanager
def exit_with_2(*expected: type[Exception]) -> Iterator[None]:
    """Turn the expected errors into a CommandError with exit status 2. Also works as a decorator."""
    try:
        yield
    except expected as error:
        raise CommandError(str(error), returncode=2) from error


@contextmanager
def open_input(name: str) -> Iterator[BinaryIO]:
    """Yield the file, or standard input for "-". Raises CommandError (exit 2) if there is no such file."""
    if name == "-":
        yield sys.stdin.buffer
        return
    try:
        is_file = Path(name).is_file()
    except (OSError, ValueError):  # ValueError: a name with a NUL byte
        is_file = False
    if not is_file:
        raise CommandError(f"no such file: {escape_for_terminal(name)}", returncode=2)
    with Path(name).open("rb") as stream:
        yield stream


def escape_for_terminal(text: str) -> str:
    """Return text of unknown origin so that a terminal can print it: on one line, without control sequences."""
    # Escape sequences in a file could otherwise recolour, move or overwrite what the terminal shows.
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text[:300])


def list_problems(
    stderr: OutputWrapper, problems: Sequence[Problem], outcome: str, most: int | None = None
) -> CommandError:
    """Write the problems of a file, at most `most`, and return the error (exit 1) with their number and the outcome."""
    for problem in problems[:most]:
        stderr.write(escape_for_terminal(str(problem)))
    if most and len(problems) > most:
        stderr.write(f"and {len(problems) - most:,} more")
    return CommandError(f"{format_count(len(problems), 'problem')}; {outcome}", returncode=1)
