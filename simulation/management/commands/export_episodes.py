"""python manage.py export_episodes RUN FILE.jsonl [--force]"""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from simulation.lab.errors import LabError
from simulation.management.arguments import run_named
from simulation.recordings import trajectory_files


class Command(BaseCommand):
    help = (
        "Write the episodes of a run as trajectories for training, one JSON object a line: observation, action, reward, "
        "ending. Only episodes that ended by the rules are written; simulation.recordings.trajectories.replay plays them again."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run", help="the run's code, as in its address")
        parser.add_argument("file", type=Path, help="where to write; its folder must be there")
        parser.add_argument("--force", action="store_true", help="write over a file that is there")

    def handle(self, *args: Any, **options: Any) -> None:
        run, path = run_named(options["run"]), options["file"]
        if run.kind != "episodes":
            raise CommandError(f"The run {run.code} made twins; only episodes are trajectories", returncode=2)
        if path.exists() and not options["force"]:
            raise CommandError(f"{path} is there already; --force writes over it", returncode=2)
        try:
            done = trajectory_files.write(run, path)
        except (OSError, LabError) as error:
            raise CommandError(f"{path} was not written: {error}") from error
        self.stdout.write(f"{done.written} episodes written to {path}")
        for why, count in sorted(done.left_out.items()):
            self.stderr.write(f"{count} left out: {why}")
