"""What orders of language models have in common on the command line."""

from argparse import ArgumentParser, ArgumentTypeError
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from simulation.calls import spending
from simulation.management.arguments import between
from simulation.models import Run
from simulation.runs import causes, queueing


def add_terms(parser: ArgumentParser) -> None:
    """Prompts and budget; a cast of rules needs neither."""
    parser.add_argument("--prompts", default="", help="a prompt set: `prompts list` names them")
    parser.add_argument("--max-cost", type=money, default=None, help="US dollars that the run may cost")
    parser.add_argument("--max-tokens", type=between(1, 10**12), default=None, help="tokens that the run may use")
    parser.add_argument("--max-minutes", type=between(1, 10**6), default=None, help="minutes from its first call on")


def terms(options: Mapping[str, Any]) -> queueing.Terms:
    """What was asked for; a limit that was not named is left out."""
    named: queueing.Terms = {"prompt_set": options["prompts"]}
    if options["max_cost"] is not None:
        named["max_cost"] = options["max_cost"]
    if options["max_tokens"] is not None:
        named["max_tokens"] = options["max_tokens"]
    if options["max_minutes"] is not None:
        named["max_seconds"] = options["max_minutes"] * 60
    return named


def tell_spending(run: Run, out: Any) -> None:
    """What the run's calls came to; nothing where no model was called."""
    totals = spending.totals(run)
    if totals.calls:
        unknown = f", and {totals.unknown_cost} calls of unknown cost" if totals.unknown_cost else ""
        out.write(f"{totals.calls} calls, {totals.tokens} tokens, {totals.cost:.4f} US dollars{unknown}")


def tell_troubles(run: Run, out: Any) -> None:
    """Each kind of failure with its number, its cause, the commonest text and what to do."""
    kinds: dict[tuple[str, str], Counter[str]] = {}
    for trouble, count in queueing.troubles(run).items():
        kinds.setdefault((trouble.status, trouble.reason), Counter())[trouble.error] += count
    for (status, reason), errors in kinds.items():
        cause = causes.CAUSES.get(causes.cause(status, reason), "unknown")
        [(error, _)] = errors.most_common(1)
        others = f" (and {len(errors) - 1} other texts, on the run's page)" if len(errors) > 1 else ""
        out.write(f"{errors.total()} {status} (cause: {cause}): {error}{others}")
        if told := causes.help(status, reason):
            out.write(f"    {told}")


def money(text: str) -> Decimal:
    """Return an amount of US dollars from the command line. ArgumentTypeError for anything else."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise ArgumentTypeError(f"{text!r} is no amount of money") from None
    if not 0 < value <= 1_000_000:
        raise ArgumentTypeError("it must be above 0 and at most 1000000")
    return value
