"""Command-line options, progress and output that commands share."""

import sys
import time
from argparse import ArgumentParser, ArgumentTypeError
from collections import Counter
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, TextIO
from uuid import UUID

from django.core.management.base import CommandError

from simulation.calls import run_usage
from simulation.models import Run
from simulation.runs import RunProgress, create, failure_reasons


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


class ProgressLine:
    """Rewrite one line on a terminal; elsewhere, print a line at most every two seconds."""

    def __init__(self, label: str, out: TextIO | None = None) -> None:
        self.label, self.out, self.last, self.printed_at = label, out or sys.stderr, "", 0.0

    def __call__(self, now: RunProgress) -> None:
        counts = ", ".join(f"{n} {status.replace('_', ' ')}" for status, n in sorted(now.by_status.items()))
        self.show_progress(f"{self.label}: {now.ended} of {now.total} ended ({counts})", last=now.is_finished)

    def show_progress(self, text: str, last: bool = False) -> None:
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
    parser.add_argument("--prompts", default="", help="a prompt set, see `prompts list`")
    parser.add_argument("--max-cost", type=parse_money, default=None, help="US dollars that the run may cost")
    parser.add_argument(
        "--max-tokens", type=integer_between(1, 10**12), default=None, help="tokens that the run may use"
    )
    parser.add_argument(
        "--max-minutes",
        type=integer_between(1, 10**6),
        default=None,
        help="minutes that the run may take, from its first call on",
    )


def get_run_options(options: Mapping[str, Any]) -> create.RunOptions:
    """Return the prompt set and the limits given on the command line."""
    run_options: create.RunOptions = {"prompt_set": options["prompts"]}
    if options["max_cost"] is not None:
        run_options["max_cost"] = options["max_cost"]
    if options["max_tokens"] is not None:
        run_options["max_tokens"] = options["max_tokens"]
    if options["max_minutes"] is not None:
        run_options["max_seconds"] = options["max_minutes"] * 60
    return run_options


def print_usage(run: Run, out: Any) -> None:
    """Print the usage of the run's calls, or nothing if it called no model."""
    totals = run_usage.sum_usage(run)
    if totals.calls:
        unknown = f", and {totals.unknown_cost} calls of unknown cost" if totals.unknown_cost else ""
        out.write(f"{totals.calls} calls, {totals.tokens} tokens, ${totals.cost:.4f}{unknown}")


def print_failures(run: Run, out: Any) -> None:
    """Print each kind of failure with its number, cause, most common message and remedy."""
    kinds: dict[tuple[str, str], Counter[str]] = {}
    for failure, count in create.count_failures(run).items():
        kinds.setdefault((failure.status, failure.reason), Counter())[failure.error] += count
    for (status, reason), errors in kinds.items():
        cause = failure_reasons.CAUSES.get(failure_reasons.find_cause(status, reason), "unknown")
        [(error, _)] = errors.most_common(1)
        others = f" (and {len(errors) - 1} other messages, see the run's page)" if len(errors) > 1 else ""
        out.write(f"{errors.total()} {status} (cause: {cause}): {error}{others}")
        if remedy := failure_reasons.describe_remedy(status, reason):
            out.write(f"    {remedy}")


def parse_money(text: str) -> Decimal:
    """Return an amount of US dollars from the command line. Raise ArgumentTypeError for anything else."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise ArgumentTypeError(f"{text!r} is not an amount of money") from None
    if not 0 < value <= 1_000_000:
        raise ArgumentTypeError("it must be above 0 and at most 1000000")
    return value
