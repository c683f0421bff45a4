"""The base class of all commands: what they print contains no characters that control a terminal."""

import sys
from typing import Any, TextIO

from django.core.management.base import BaseCommand, CommandError, OutputWrapper, SystemCheckError
from django.db import DatabaseError

from wetbench_site.text import remove_control_characters

NO_TABLES = "The database has no tables of this version yet: run `python manage.py migrate` first"


class SafeOutput(OutputWrapper):
    """Standard output or standard error of a command. Names, replies of models and messages are printed without control characters."""

    def __init__(self, out: Any) -> None:
        # `_out` is the stream inside Django's wrapper, which has no public name.
        stream: Any = out._out if isinstance(out, OutputWrapper) else out
        super().__init__(stream)

    def write(self, msg: str = "", style_func: Any = None, ending: str | None = None) -> None:  # type: ignore[override]
        # Cleaned first: the colours that Django adds are control characters, too.
        super().write(remove_control_characters(str(msg)), style_func, ending)

    def write_data(self, text: str) -> None:
        """Write the text of a file exactly as it is, for a pipe or a redirection; on a terminal, without control characters."""
        if self.isatty():
            self.write(text, ending="")
        else:
            super().write(text, ending="")

    def rewrite_line(self, text: str, is_last: bool) -> None:
        """Replace the current line of a terminal by this text, and begin a new line after the last one."""
        super().write(f"\r\x1b[K{remove_control_characters(text)}", ending="\n" if is_last else "")


def is_missing_table(error: DatabaseError) -> bool:
    """Return whether a statement failed because the database is new or older than this version."""
    return "no such table" in str(error) or getattr(error.__cause__, "sqlstate", None) == "42P01"  # undefined_table


class SafeCommand(BaseCommand):
    """A command whose output and error messages contain no control characters. Streams that Django or a caller sets are wrapped."""

    _called_from_command_line: bool  # set by Django
    _stdout: SafeOutput
    _stderr: SafeOutput

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except CommandError as error:
            if isinstance(error, SystemCheckError) or not self._called_from_command_line or options["traceback"]:
                raise
            # Django would print the name of the class before the message.
            self.stderr.write(str(error))
            sys.exit(error.returncode)
        except DatabaseError as error:
            if not is_missing_table(error) or not self._called_from_command_line or options["traceback"]:
                raise
            self.stderr.write(NO_TABLES)
            sys.exit(2)

    # Properties, because Django sets new streams in `call_command` and prints errors of `handle` on `stderr`.
    @property
    def stdout(self) -> SafeOutput:
        return self._stdout

    @stdout.setter
    def stdout(self, out: TextIO | OutputWrapper) -> None:
        self._stdout = SafeOutput(out)

    @property
    def stderr(self) -> SafeOutput:
        return self._stderr

    @stderr.setter
    def stderr(self, out: TextIO | OutputWrapper) -> None:
        self._stderr = SafeOutput(out)
