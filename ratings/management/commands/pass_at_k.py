"""python manage.py pass_at_k ATTEMPTS.csv [--k 1,3,5] [--compare] [--json], or: pass_at_k --benchmark NAME ..."""

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any

from django.core.management.base import CommandError, CommandParser

from ratings.exchange.long_tables import decode_lines
from ratings.exchange.rating_tables import (
    NO_WORDS,
    YES_WORDS,
    TableError,
    format_quoted,
    iter_rows,
    normalise_column,
    normalise_verdict,
    restore_cell,
)
from ratings.management.input_files import list_problems, open_input
from ratings.management.statistics_output import MAX_PROBLEMS_SHOWN, StatisticsCommand, parse_integer
from ratings.models import Benchmark
from ratings.results.benchmarks.document import load_results
from ratings.stats import Estimate, summary
from ratings.stats.proportions import TaskReplicates, compare_agents, estimate_mean_pass_at_k
from wetbench_site.validation import Problem

REQUIRED = ("agent", "task", "success")
COLUMNS = (
    "stat",
    "agent",
    "other_agent",
    "k",
    "value",
    "low",
    "high",
    "method",
    "tasks",
    "attempts",
    "successes",
    "reason",
)
MAX_NAME_LENGTH = 200
Attempts = Mapping[str, Sequence[TaskReplicates]]


class Command(StatisticsCommand):
    help = (
        "Compute pass@k of each agent over tasks, unbiased and with an interval for new tasks, and the differences between "
        "agents: from a CSV file with one attempt a line and the columns agent, task, success (1 or 0). Prints CSV, or JSON."
    )
    examples = (
        "pass_at_k attempts.csv",
        "pass_at_k attempts.csv --k 1,5 --compare --json",
        "pass_at_k --benchmark 'July agents' --k 3",
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "file", metavar="ATTEMPTS.csv", nargs="?", default="",
            help="a CSV file, or - for standard input; no database is used",
        )  # fmt: skip
        parser.add_argument("--benchmark", default="", help="name or code of a stored benchmark, instead of a file")
        parser.add_argument("--k", type=parse_numbers, default=[1], metavar="1,3", help="attempts allowed (default: 1)")
        parser.add_argument("--compare", action="store_true", help="also print the difference of every two agents")
        self.add_resampling_options(parser)
        self.add_format_options(parser, has_text=False)

    def handle(self, *args: Any, **options: Any) -> None:
        if bool(options["file"]) == bool(options["benchmark"]):
            raise CommandError("give a file, or --benchmark and no file", returncode=2)
        attempts = _load_benchmark(options["benchmark"]) if options["benchmark"] else self._load_file(options["file"])
        rows = [estimate_mean_pass_at_k(agent, tasks, k) for agent, tasks in attempts.items() for k in options["k"]]
        if options["compare"]:
            settings = {name: options[name] for name in ("seed", "resamples")}
            for pair in combinations(attempts, 2):
                rows += [row for k in options["k"] for row in compare_agents(*pair, attempts, k, **settings)]
        if options["json"]:
            self.print_lines(summary.format_json_lines(rows))
        else:
            self.print_table(COLUMNS, map(_list_cells, rows))

    def _load_file(self, name: str) -> Attempts:
        """Return the attempts of each agent by task. Raises CommandError with all problems of the file listed."""
        with open_input(name) as stream:
            attempts, problems = parse_attempts(stream)
        if problems:
            raise list_problems(self.stderr, problems, "nothing was computed", MAX_PROBLEMS_SHOWN)
        return attempts


def parse_attempts(lines: Iterable[bytes]) -> tuple[Attempts, list[Problem]]:
    """Return the attempts of each agent by task, in the order of their names, and the problems of the file."""
    problems: list[Problem] = []
    counts: dict[str, dict[str, Counter[bool]]] = {}
    try:
        for number, agent, task, text in _iter_attempts(lines):
            word = normalise_verdict(text)
            for column, name in (("agent", agent), ("task", task)):
                if not 0 < len(name) <= MAX_NAME_LENGTH or not name.isprintable():
                    message = f"is {format_quoted(name)}; it must have 1 to {MAX_NAME_LENGTH} printable characters"
                    problems.append(Problem(number, column, message))
            if word not in (*YES_WORDS, *NO_WORDS):
                problems.append(Problem(number, "success", f"is {format_quoted(text)}; it must be 1 or 0"))
            counts.setdefault(agent, {}).setdefault(task, Counter())[word in YES_WORDS] += 1
    except TableError as error:
        problems.append(error.problem)
    if not counts and not problems:
        problems.append(Problem(0, "", "no row has an attempt"))
    attempts = {
        agent: [TaskReplicates(task, by_task[task].total(), by_task[task][True]) for task in sorted(by_task)]
        for agent, by_task in sorted(counts.items())
    }
    return attempts, problems


def _iter_attempts(lines: Iterable[bytes]) -> Iterator[tuple[int, str, str, str]]:
    """Yield the line number, agent, task and success of each row. Raises TableError."""
    rows = iter_rows(decode_lines(lines))
    number, header = next(rows, (0, []))
    if not number:
        raise TableError(0, "the file is empty")
    names = [normalise_column(restore_cell(name)) for name in header]
    if missing := [name for name in REQUIRED if name not in names]:
        existing = ", ".join(filter(None, names))[:200]
        raise TableError(
            number, f"the first line must name the columns; missing: {', '.join(missing)}; it names: {existing}"
        )
    places = [names.index(name) for name in REQUIRED]
    for number, cells in rows:
        if len(cells) <= max(places):
            raise TableError(number, f"has {len(cells)} cells, the first line {len(names)}")
        agent, task, success = (restore_cell(cells[place].strip()).strip() for place in places)
        yield number, agent, task, success


def _load_benchmark(name: str) -> Attempts:
    """Return the attempts of the agents of a benchmark. Raises CommandError if none, or more than one, has this name."""
    benchmarks = [one for one in Benchmark.objects.all() if name in (one.name, str(one.code))]
    if len(benchmarks) != 1:
        names = ", ".join(sorted({one.name for one in Benchmark.objects.all()})) or "none"
        wrong = "several benchmarks have the name" if benchmarks else "no benchmark has the name or code"
        raise CommandError(f"{wrong} {name}; there are: {names}", returncode=2)
    results = load_results(benchmarks[0])
    return {agent: results.count_attempts(agent) for agent in results.agent_names}


def _list_cells(row: Estimate) -> list[Any]:
    agents = row.args.get("agents", [row.args.get("agent", ""), ""])
    sizes = [row.n.get(name) for name in ("tasks", "attempts", "successes")]
    return [row.stat, *agents, row.args.get("k"), row.value, row.low, row.high, row.method, *sizes, row.reason]


def parse_numbers(text: str) -> list[int]:
    """Return whole numbers separated by commas. Raises ArgumentTypeError unless each is at least 1."""
    numbers = [partial(parse_integer, 1)(part.strip()) for part in text.split(",") if part.strip()]
    if not numbers:
        raise argparse.ArgumentTypeError(f"{text!r} has no numbers")
    return list(dict.fromkeys(numbers))
