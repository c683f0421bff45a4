"""python manage.py grade_code RUN [--again] [--json]"""

import json
from collections import Counter
from typing import Any

from django.core.management.base import CommandError, CommandParser

from simulation.code_runs import code_gradings, sandboxes
from simulation.lab.errors import LabError
from simulation.management.command_options import get_run
from simulation.models import CodeEpisode
from simulation.replication.sandbox.base import SandboxFault, SandboxUnavailable
from wetbench_site.safe_output import SafeCommand


class Command(SafeCommand):
    help = "Print the outcomes of a run of code episodes. With --again, grade them once more in sandboxes and compare; nothing is stored."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run", help="code of the run")
        parser.add_argument("--again", action="store_true", help="grade again; exit with 1 if an outcome differs")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        run = get_run(options["run"])
        if run.kind != "code":
            raise CommandError(f"Run {run.code} has no code episodes; its kind is {run.kind}", returncode=2)
        rows = run.code_episodes.filter(grading__isnull=False).select_related("grading", "mask__task")
        episodes = list(rows.defer("mask__task__data").order_by("pk"))
        outcomes = Counter(episode.grading.outcome for episode in episodes)
        result: dict[str, Any] = {"run": str(run.code), "graded": len(episodes), "outcomes": dict(outcomes)}
        if options["again"]:
            result |= self.compare_all(episodes, quiet=options["json"])
        if options["json"]:
            self.stdout.write(json.dumps(result))
        else:
            self.stdout.write(
                f"{len(episodes)} graded: " + ", ".join(f"{n} {name}" for name, n in outcomes.most_common())
            )
        if options["again"]:
            if not options["json"]:
                self.stdout.write(f"graded again: {result['same']} as stored, {len(result['different'])} different")
            if result["different"] or result["not_graded"]:
                raise CommandError(
                    f"{len(result['different']) + len(result['not_graded'])} of {len(episodes)} differ or cannot be graded",
                    returncode=1,
                )

    def compare_all(self, episodes: list[CodeEpisode], quiet: bool) -> dict[str, Any]:
        """Grade each episode again and return what differs from the stored grades."""
        try:
            sandbox = sandboxes.get_sandbox()
        except SandboxUnavailable as error:
            raise CommandError(f"Grading needs a sandbox: {error}", returncode=2) from error
        same, different, not_graded = 0, [], []
        for episode in episodes:
            try:
                grade = code_gradings.grade_again(episode, sandbox)
            except (LabError, SandboxFault) as error:
                not_graded.append({"episode": str(episode.code), "error": str(error)})
                continue
            stored = episode.grading.outcome
            if grade.outcome == stored:
                same += 1
            else:
                different.append({"episode": str(episode.code), "stored": stored, "now": grade.outcome})
        if not quiet:
            for entry in different:
                self.stdout.write(f"{entry['episode']}: stored {entry['stored']}, now {entry['now']}")
            for entry in not_graded:
                self.stderr.write(f"{entry['episode']} cannot be graded: {entry['error']}")
        return {"same": same, "different": different, "not_graded": not_graded}
