"""python manage.py replay_run FILE.jsonl"""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from simulation.providers.recording import RecordingError
from simulation.recordings import replaying


class Command(BaseCommand):
    help = "Play a recorded run again without a network, and say whether every step comes out the same, byte for byte."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            run, compared = replaying.replay(options["file"])
        except (replaying.ReplayError, RecordingError) as error:
            raise CommandError(str(error), returncode=2) from error
        except OSError as error:
            raise CommandError(f"{options['file']}: cannot be read: {error.strerror}", returncode=2) from error
        for one in compared:
            told = one.difference or "the same"
            self.stdout.write(f"{one.experiment}, replicate {one.replicate}, {one.steps} steps: {told}")
        if differing := sum(bool(one.difference) for one in compared):
            raise CommandError(f"{differing} of {len(compared)} episodes differ from the recording (run {run.code})")
        self.stdout.write(f"run {run.code}: {len(compared)} episodes, the same byte for byte")
