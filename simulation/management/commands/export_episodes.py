"""python manage.py export_episodes RUN FILE.jsonl [--format trajectories|messages] [--tools] [--force]"""

from functools import partial
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from simulation.lab.errors import LabError
from simulation.management.command_options import check_output_file, get_run
from simulation.recordings import run_recordings
from wetbench_site.safe_output import SafeCommand


class Command(SafeCommand):
    help = (
        "Write the episodes of a run for training, one JSON object per line: as trajectories (observations, actions, rewards, "
        "ending), which simulation.recordings.trajectories replays, or as chat messages with tool calls and results. Only "
        "episodes that ended by the rules are written."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run", help="the run's code, as in its URL")
        parser.add_argument("file", type=Path, help="output file; its folder must exist")
        parser.add_argument("--format", choices=("trajectories", "messages"), default="trajectories", help="of a line")
        parser.add_argument("--tools", action="store_true", help="with messages: also the tools' schemas in every line")
        parser.add_argument("--force", action="store_true", help="overwrite an existing file")

    def handle(self, *args: Any, **options: Any) -> None:
        run, path = get_run(options["run"]), options["file"]
        if run.kind != "episodes":
            raise CommandError(
                f"The run {run.code} is not a run of episodes; only episodes can be exported as trajectories",
                returncode=2,
            )
        check_output_file(path, options["force"])
        build_line = run_recordings.build_trajectory
        if options["format"] == "messages":
            build_line = partial(run_recordings.build_chat, with_tools=options["tools"])
        elif options["tools"]:
            raise CommandError("--tools is for --format messages", returncode=2)
        try:
            result = run_recordings.write_trajectories(run, path, build_line)
        except (OSError, LabError) as error:
            raise CommandError(f"{path} was not written: {error}") from error
        self.stdout.write(f"{result.number_written} episodes written to {path}")
        for reason, count in sorted(result.left_out.items()):
            self.stderr.write(f"{count} left out: {reason}")
