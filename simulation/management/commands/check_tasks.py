"""python manage.py check_tasks --task SLUG|all [--per-n 1] [--mutants 20|all] [--quick] [--profiles] [--values] [--again] [--json]"""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from simulation.lab.errors import LabError
from simulation.management.command_options import ProgressLine, integer_between
from simulation.management.task_options import add_task_options, parse_limit, read_valid_tasks
from simulation.replication.sandbox.base import SandboxUnavailable
from simulation.replication.sandbox.choosing import open_sandbox
from simulation.replication.tasks.checking.check_task import check_task, describe_proof_environment
from simulation.replication.tasks.checking.proof_files import load_proof, save_proof
from simulation.replication.tasks.checking.proofs import CheckOptions, TaskProof, summarise_proofs
from simulation.replication.tasks.mask_draws import DEFAULT_SEED, MAX_SEED, MODES
from simulation.replication.values import Task
from wetbench_site.safe_output import SafeCommand
from wetbench_site.text import format_count

_WORKERS = 2  # sandboxes at a time


class Command(SafeCommand):
    help = (
        "Check replication tasks in sandboxes: that their numbers repeat and differ between data sets, that every function is needed, that no stub passes, "
        "that wrong versions are caught, that drawn masks can be solved, and that nothing leaks. Reads the task folders, not the database. Results of "
        "earlier checks on this machine are reused. Exits with 1 if there are faults, and with 2 for an unknown task or without a sandbox."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        add_task_options(parser, settings.FIXTURES_DIR / "replication")
        parser.add_argument(
            "--per-n", type=integer_between(1, 5000), default=1, help="masks of each number of hidden functions"
        )
        parser.add_argument(
            "--mutants", type=parse_limit, default=20, help="generic wrong versions of each function, or all"
        )
        parser.add_argument("--mode", choices=MODES, default="uniform", help="mode of the masks")
        parser.add_argument("--seed", type=integer_between(0, MAX_SEED), default=DEFAULT_SEED, help="seed of the masks")
        parser.add_argument("--quick", action="store_true", help="leave out wrong versions and masks")
        parser.add_argument("--profiles", action="store_true", help="also compare the quick profile with the full one")
        parser.add_argument(
            "--values", action="store_true", help="also print the range of every result over the variants"
        )
        parser.add_argument("--again", action="store_true", help="do not reuse stored results")
        parser.add_argument("--json", action="store_true", help="print one JSON object instead of lines")

    def handle(self, *args: Any, **options: Any) -> None:
        tasks, problems = read_valid_tasks(Path(options["directory"]), options["task"])
        names = ("per_n", "mutants", "quick", "profiles", "mode", "seed")
        chosen = CheckOptions(**{name: options[name] for name in names})
        proofs = self.prove_tasks(tasks, chosen, options["again"])
        faults = [*problems, *(f"{proof.slug}/{fault}" for proof in proofs for fault in proof.faults)]
        if options["json"]:
            summary = {**summarise_proofs(proofs), "faults": faults, "proofs": [proof.to_json() for proof in proofs]}
            self.stdout.write(json.dumps(summary, ensure_ascii=False))
        else:
            for task, proof in zip(tasks, proofs, strict=True):
                self.print_proof(proof)
                if options["profiles"] and not task.profiles:
                    self.stdout.write("  the task has no quick profile: both profiles are the same")
                if options["values"]:
                    self.print_values(task, proof)
            for problem in problems:
                self.stdout.write(f"FAULT {problem}")
            self.stdout.write(json.dumps(summarise_proofs(proofs)))
        if faults:
            raise CommandError(format_count(len(faults), "fault"), returncode=1)

    def prove_tasks(self, tasks: list[Task], chosen: CheckOptions, again: bool) -> list[TaskProof]:
        """Return a proof for each task, from the folder of proofs or by checking it now."""
        progress = ProgressLine("check_tasks")
        folder = settings.VAR_DIR / "task_proofs"
        try:
            sandbox = open_sandbox()
        except SandboxUnavailable as error:
            raise CommandError(str(error), returncode=2) from error

        def get_proof(task: Task) -> TaskProof:
            environment = describe_proof_environment(task, sandbox)
            if not again and (stored := load_proof(folder, task, chosen, environment)):
                return stored
            report = lambda text: progress.show_progress(f"{task.slug}: {text}")  # noqa: E731  # names its task
            proof = check_task(task, sandbox, chosen, report_progress=report, workers=1)
            save_proof(folder, proof)
            return proof

        try:
            # One sandbox for each task at a time: with two for one task, the second would wait for the first at every rule.
            with ThreadPoolExecutor(_WORKERS) as pool:
                proofs = list(pool.map(get_proof, tasks))
        except LabError as error:
            raise CommandError(str(error), returncode=2) from error
        progress.show_progress(f"checked {format_count(len(proofs), 'task')}", last=True)
        return proofs

    def print_values(self, task: Task, proof: TaskProof) -> None:
        """Print the least and the largest value of each numeric result, so that an author notices implausible ones."""
        units = {(case.id, metric.name): metric.unit for case in task.test_cases for metric in case.metrics}
        for metric in proof.metrics:
            if metric.low is not None and metric.high is not None:
                unit = units[metric.case, metric.name]
                self.stdout.write(
                    f"  {metric.case}.{metric.name}: {metric.low:.4g} to {metric.high:.4g} {unit}".rstrip()
                )

    def print_proof(self, proof: TaskProof) -> None:
        """Print what was measured about a task, with its weak metrics and faults."""
        slowest = max(proof.case_seconds.values(), default=0)
        self.stdout.write(
            f"{proof.slug}: {'valid' if proof.is_valid else 'NOT VALID'}; {len(proof.masks)} masks; slowest test case {slowest:.2f} s; "
            f"{proof.resident_mib} MiB; checked in {proof.seconds:.0f} s"
        )
        for function in proof.functions:
            mutants = ", ".join(f"{number} {outcome}" for outcome, number in sorted(function.mutants.items()))
            self.stdout.write(
                f"  {function.id} {function.name}: {function.lines} lines, {function.calls} calls, depth {function.depth}, "
                f"{' '.join(function.cases) or 'no test case'}" + (f"; wrong versions: {mutants}" if mutants else "")
            )
        weak = [f"{metric.case}.{metric.name} {metric.share:.2f}" for metric in proof.metrics if not metric.is_strong]
        if weak:
            self.stdout.write(f"  weak metrics (share of pairs of variants that differ): {', '.join(weak)}")
        passing = [f"[{error.index}] in {error.function}" for error in proof.errors if error.passes_paper]
        if passing:
            self.stdout.write(f"  hand-written errors within 5 % on the base data: {', '.join(passing)}")
        if proof.profiles:
            rates = f"recall {proof.profiles.recall:.3f}, precision {proof.profiles.precision:.3f}"
            self.stdout.write(f"  quick profile against full, {proof.profiles.trees} trees: {rates}")
        for claim in proof.claims:
            verdict = "near" if claim.is_near else "NOT near"
            self.stdout.write(
                f"  {claim.case}.{claim.name}: the source states {claim.claimed}, computed here {claim.computed}: {verdict}"
            )
        for text in proof.untested:
            self.stdout.write(f"  CANNOT BE TESTED {text}")
        for fault in proof.faults:
            self.stdout.write(f"  FAULT ({fault.rule}) {fault}")
