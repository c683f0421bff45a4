"""Command-line options, progress and output that commands share."""

import os
import sys
import time
from argparse import ArgumentParser, ArgumentTypeError
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, TextIO, cast
from uuid import UUID

from django.core.management.base import CommandError, CommandParser

from simulation.calls import run_usage
from simulation.engine import workers
from simulation.models import Run
from simulation.runs import RunProgress, create, failure_reasons
from wetbench_site.safe_output import SafeCommand
from wetbench_site.text import remove_control_characters


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


def check_output_file(path: Path, overwrite: bool) -> None:
    """Raise CommandError, and exit with 2, unless a regular file can be written at `path`. `overwrite` is the option --force."""
    if path.exists() and not path.is_file():
        raise CommandError(f"{path} is not a regular file; give another path", returncode=2)
    if path.exists() and not overwrite:
        raise CommandError(f"{path} exists already; --force overwrites it", returncode=2)
    if not path.parent.is_dir():
        raise CommandError(f"{path}: there is no folder {path.parent}; create it first", returncode=2)


@contextmanager
def tolerate_closed_pipe(out: Any) -> Iterator[None]:
    """Flush the output at the end of the block, and end silently if its reader has closed the pipe."""
    try:
        try:
            yield
        finally:
            out.flush()
    except BrokenPipeError:
        # Discard what is still buffered, so that Python reports no error at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class ProgressLine:
    """Rewrite one line on a terminal; elsewhere, print a line at most every two seconds."""

    def __init__(self, label: str, out: TextIO | None = None) -> None:
        self.label, self.out, self.last, self.printed_at = label, out or sys.stderr, "", 0.0

    def __call__(self, now: RunProgress) -> None:
        counts = ", ".join(f"{n} {status.replace('_', ' ')}" for status, n in sorted(now.by_status.items()))
        self.show_progress(f"{self.label}: {now.ended} of {now.total} ended ({counts})", last=now.is_finished)

    def show_progress(self, text: str, last: bool = False) -> None:
        text = remove_control_characters(text)  # contains names that people or models chose
        if text == self.last and not last:
            return
        if self.out.isatty():
            # return to the start of the line and erase it
            self.out.write(f"\r\x1b[K{text}" + ("\n" if last else ""))
        elif last or time.monotonic() - self.printed_at > 2:
            self.out.write(f"{text}\n")
            self.printed_at = time.monotonic()
        self.last = text
        self.out.flush()


def add_run_options(parser: ArgumentParser) -> None:
    """Add the options for prompts and limits. Rule-based casts need neither."""
    minutes_help = "minutes that the run may take, from its first call on"
    parser.add_argument("--prompts", default="", help="a prompt set, see `prompts list`")
    parser.add_argument("--max-cost", type=parse_money, help="US dollars that the run may cost")
    parser.add_argument("--max-tokens", type=integer_between(1, 10**12), help="tokens that the run may use")
    parser.add_argument("--max-minutes", type=integer_between(1, 10**6), help=minutes_help)


def get_run_options(options: Mapping[str, Any]) -> create.RunOptions:
    seconds = None if options["max_minutes"] is None else options["max_minutes"] * 60
    limits = {"max_cost": options["max_cost"], "max_tokens": options["max_tokens"], "max_seconds": seconds}
    given = {name: limit for name, limit in limits.items() if limit is not None}
    return cast(create.RunOptions, {"prompt_set": options["prompts"], **given})


def print_usage(run: Run, out: Any) -> None:
    """Print the usage of the run's calls, or nothing if it called no model."""
    totals = run_usage.sum_usage(run)
    if totals.calls:
        unknown = f", and {totals.unknown_cost} calls of unknown cost" if totals.unknown_cost else ""
        out.write(f"{totals.calls} calls, {totals.tokens} tokens, ${totals.cost:.4f}{unknown}")


def print_failures(run: Run, out: Any) -> None:
    """Print each kind of failure with its number, cause, most common message and remedy."""
    kinds: dict[tuple[str, str], Counter[str]] = {}
    for (status, reason, error), count in create.count_failures(run).items():
        kinds.setdefault((status, reason), Counter())[error] += count
    for (status, reason), errors in kinds.items():
        cause = failure_reasons.CAUSES.get(failure_reasons.find_cause(status, reason), "unknown")
        [(error, _)] = errors.most_common(1)
        others = f" (and {len(errors) - 1} other messages, see the run's page)" if len(errors) > 1 else ""
        out.write(f"{errors.total()} {status} (cause: {cause}): {error}{others}")
        if remedy := failure_reasons.describe_remedy(status, reason):
            out.write(f"    {remedy}")


class RunCommand(SafeCommand):
    """A command that creates a run and, with --wait, waits for its rows."""

    noun = "episode"  # one row of the run
    waiting_help = ""
    threads_help = ""

    def add_arguments(self, parser: CommandParser) -> None:
        add_run_options(parser)
        parser.add_argument("--wait", action="store_true", help=self.waiting_help)
        parser.add_argument("--threads", type=integer_between(1, 400), default=2, help=self.threads_help)

    def follow_run(self, run: Run, number: int, options: Mapping[str, Any]) -> None:
        """Print what was queued. With --wait, run it to its end or wait; raise CommandError if rows failed or are blocked."""
        self.stdout.write(f"run {run.code}: {number} {self.noun}{'s' * (number != 1)} queued, seed {run.seed}")
        if not options["wait"]:
            if not create.has_live_worker():
                self.stdout.write("No worker is running: start one with `make worker`, or use --wait.")
            return
        progress = workers.wait_for_run(run, options["threads"], ProgressLine(f"{self.noun}s"))
        self.print_endings(progress)
        print_usage(run, self.stdout)
        print_failures(run, self.stderr)
        if failed := progress.by_status.get("failed", 0) + progress.by_status.get("blocked", 0):
            raise CommandError(f"{failed} of {progress.total} {self.noun}s failed or are blocked")

    def print_endings(self, progress: RunProgress) -> None:
        """Print endings that are neither successes nor failures."""


def parse_money(text: str) -> Decimal:
    """Return an amount of US dollars from the command line. Raise ArgumentTypeError for anything else."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise ArgumentTypeError(f"{text!r} is not an amount of money") from None
    if not 0 < value <= 1_000_000:
        raise ArgumentTypeError("it must be above 0 and at most 1000000")
    return value
