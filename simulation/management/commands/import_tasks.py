"""python manage.py import_tasks SOURCE --format autoexperiment|git --out FOLDER [--commit HASH] [--dry-run] [--load] [--json]"""

import json
import re
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from simulation.code_runs import tasks
from simulation.lab.errors import LabError
from simulation.replication.importing.import_sources import import_auto_experiment, import_commit
from simulation.replication.importing.reading import ImportFault
from simulation.replication.importing.results import ImportedTask, ImportResult, write_tasks
from simulation.replication.sandbox.base import Sandbox, SandboxUnavailable
from simulation.replication.sandbox.choosing import open_sandbox
from simulation.replication.tasks.imported_parts import SEED_ARGUMENT
from wetbench_site.safe_output import SafeCommand


class Command(SafeCommand):
    help = (
        "Import replication tasks of another benchmark, or of a commit of a Git repository, as task folders. Their code is parsed in a sandbox and runs nowhere. "
        "Writes all tasks or none. Exits with 1 if functions of the source are left out, and with 2 if nothing could be imported."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("source", type=Path, help="folder of the tables, or Git repository on this machine")
        parser.add_argument("--format", choices=["autoexperiment", "git"], required=True)
        parser.add_argument("--out", type=Path, help="folder for the task folders")
        parser.add_argument(
            "--seed-argument", default="", help="argument of the commands that is a random seed, without its hyphens"
        )
        parser.add_argument(
            "--only", action="append", default=[], help="autoexperiment: id of a paper; may be repeated"
        )
        parser.add_argument("--commit", default="", help="git: full hash of the commit")
        parser.add_argument("--folder", default="", help="git: folder of the task in the commit")
        parser.add_argument("--task-file", type=Path, help="git: task.json in place of that of the commit")
        parser.add_argument("--dry-run", action="store_true", help="write nothing")
        parser.add_argument("--load", action="store_true", help="also load the tasks into the database")
        parser.add_argument("--json", action="store_true", help="print one JSON object instead of lines")

    def handle(self, *args: Any, **options: Any) -> None:
        if not (options["dry_run"] or options["out"]):
            raise CommandError("--out: is missing; allowed: a folder, or --dry-run", returncode=2)
        try:
            result = self.read_source(open_sandbox(), options)
            # A dry run needs no folder; what it would write is read in a temporary one.
            folders = write_tasks(result.tasks, options["out"] or Path(), dry_run=options["dry_run"])
            if folders and options["load"]:
                tasks.load_tasks(options["out"])
        except SandboxUnavailable as error:
            raise CommandError(str(error), returncode=2) from error
        except ImportFault as fault:
            if options["json"]:
                self.stdout.write(json.dumps({"problems": list(fault.problems)}, ensure_ascii=False))
            raise CommandError("Nothing was imported.\n" + "\n".join(fault.problems), returncode=2) from fault
        except (LabError, OSError) as error:
            raise CommandError(str(error), returncode=2) from error
        if options["json"]:
            written = {"written": [str(folder) for folder in folders]}
            self.stdout.write(json.dumps({**result.to_json(), **written, "problems": []}, ensure_ascii=False))
        else:
            self.print_result(result)
        if unresolved := sum(len(task.unresolved) for task in result.tasks):
            raise CommandError(f"{unresolved} functions of the source are left out", returncode=1)

    def read_source(self, sandbox: Sandbox, options: dict[str, Any]) -> ImportResult:
        """Return the tasks of the source. Raises ImportFault and SandboxFault."""
        source: Path = options["source"]
        if not source.is_dir():
            raise ImportFault([f"{source}: is no folder"])
        if options["format"] == "git":
            return import_commit(source, options["commit"], sandbox, options["folder"], options["task_file"])
        name = options["seed_argument"]
        seed_argument = f"--{name}" if name else ""
        if not re.fullmatch(SEED_ARGUMENT, seed_argument):
            text = "the name of an argument without hyphens before it: small letters, digits, _ and -"
            raise ImportFault([f"--seed-argument: is {name!r}; allowed: {text}"])
        return import_auto_experiment(source, sandbox, seed_argument, options["only"])

    def print_result(self, result: ImportResult) -> None:
        """Print each task with what is left out, and the counts of the tables."""
        for task in result.tasks:
            self.print_task(task)
        if result.listed_functions is not None:
            self.stdout.write(f"mlrc_funcs.csv lists {result.listed_functions} functions")
        for number, counts in result.samples.items():
            paper = "not stated" if counts["in_paper"] is None else f"{counts['in_paper']:,}"
            self.stdout.write(
                f"n = {number}: {counts['here']} samples here, {counts['usable']} usable, {counts['mean_experiments']:.2f} experiments on average; "
                f"samples in the paper: {paper}"
            )

    def print_task(self, task: ImportedTask) -> None:
        state = f"UNVALIDATED, needs {'; '.join(task.missing)}" if task.missing else "can be checked here"
        self.stdout.write(
            f"{task.slug}: {task.functions} functions, {task.test_cases} experiments, {task.claims} results stated; {state}"
        )
        if not task.has_variants:
            self.stdout.write("  robust cannot be tested: no generator and no seed argument, so no episode is solved")
        for name, reason in task.unresolved.items():
            self.stdout.write(f"  function {name} is left out: {reason}")
        for text in (*task.left_out, *task.notes):
            self.stdout.write(f"  {text}")
