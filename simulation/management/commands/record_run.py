"""python manage.py record_run RUN FILE.jsonl"""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from simulation.management.command_options import check_output_file, get_run
from simulation.recordings import run_recordings
from wetbench_site.safe_output import SafeCommand


class Command(SafeCommand):
    help = "Write a run with all replies of its models to a file that `replay_run` can replay without a network."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run", help="the run's code")
        parser.add_argument("file", type=Path)
        parser.add_argument("--force", action="store_true", help="overwrite an existing file")

    def handle(self, *args: Any, **options: Any) -> None:
        check_output_file(options["file"], options["force"])
        try:
            number = run_recordings.record_run(get_run(options["run"]), options["file"])
        except run_recordings.ReplayError as error:
            raise CommandError(str(error), returncode=2) from error
        except OSError as error:
            raise CommandError(f"{options['file']}: cannot be written: {error.strerror}", returncode=2) from error
        self.stdout.write(f"{number} calls recorded in {options['file']}")
