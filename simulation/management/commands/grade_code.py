"""python manage.py grade_code RUN [--again] [--json]"""

import json
from collections import Counter, deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from django.core.management.base import CommandError, CommandParser

from simulation.code_runs import code_gradings, sandboxes
from simulation.lab.errors import LabError
from simulation.management.command_options import ProgressLine, get_run
from simulation.models import CodeEpisode
from simulation.replication.grading import Grade, grade_work
from simulation.replication.sandbox.base import Sandbox, SandboxFault, SandboxUnavailable
from wetbench_site.safe_output import SafeCommand

_WORKERS = 2  # gradings at a time


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
        progress, graded = ProgressLine("grade_code"), 0
        waiting: deque[tuple[CodeEpisode, Future[Grade]]] = deque()

        def collect_grade() -> None:
            nonlocal same, graded
            episode, future = waiting.popleft()
            stored = episode.grading.outcome
            try:
                outcome = future.result().outcome
            except (LabError, SandboxFault) as error:
                not_graded.append({"episode": str(episode.code), "error": str(error)})
            else:
                same += outcome == stored
                if outcome != stored:
                    different.append({"episode": str(episode.code), "stored": stored, "now": outcome})
            graded += 1
            progress.show_progress(f"graded again: {graded} of {len(episodes)}", last=graded == len(episodes))

        with ThreadPoolExecutor(_WORKERS) as pool:
            for episode in episodes:
                waiting.append((episode, self._start_grading(episode, sandbox, pool)))
                if len(waiting) > _WORKERS:
                    collect_grade()
            while waiting:
                collect_grade()
        if not quiet:
            for entry in different:
                self.stdout.write(f"{entry['episode']}: stored {entry['stored']}, now {entry['now']}")
            for entry in not_graded:
                self.stderr.write(f"{entry['episode']} cannot be graded: {entry['error']}")
        return {"same": same, "different": different, "not_graded": not_graded}

    def _start_grading(self, episode: CodeEpisode, sandbox: Sandbox, pool: ThreadPoolExecutor) -> Future[Grade]:
        """Return the future grade. Only this thread uses the database."""
        try:
            return pool.submit(grade_work, code_gradings.prepare_grading(episode, sandbox), sandbox)
        except (LabError, SandboxFault) as error:
            failed: Future[Grade] = Future()
            failed.set_exception(error)
            return failed
