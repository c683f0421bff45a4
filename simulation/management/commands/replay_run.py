"""python manage.py replay_run FILE.jsonl"""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from simulation.providers.recording import RecordingError
from simulation.recordings import run_recordings
from wetbench_site.safe_output import SafeCommand


class Command(SafeCommand):
    help = "Replay a recorded run without a network, and report whether every step is the same, byte for byte."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            run, comparisons = run_recordings.replay_run(options["file"])
        except (run_recordings.ReplayError, RecordingError) as error:
            raise CommandError(str(error), returncode=2) from error
        except OSError as error:
            raise CommandError(f"{options['file']}: cannot be read: {error.strerror}", returncode=2) from error
        for episode in comparisons:
            result = episode.difference or "the same"
            self.stdout.write(f"{episode.experiment}, replicate {episode.replicate}, {episode.steps} steps: {result}")
        if differing := sum(bool(episode.difference) for episode in comparisons):
            raise CommandError(f"{differing} of {len(comparisons)} episodes differ from the recording (run {run.code})")
        self.stdout.write(f"run {run.code}: {len(comparisons)} episodes, the same byte for byte")
