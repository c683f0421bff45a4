"""python manage.py export_code RUN FILE.jsonl [--trees DIR] [--without-prompts] [--force]"""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from simulation.lab.errors import LabError
from simulation.management.command_options import check_output_file, get_run
from simulation.recordings.code_trajectories import write_code_trajectories
from wetbench_site.safe_output import SafeCommand


class Command(SafeCommand):
    help = (
        "Write the graded code episodes of a run for training, one JSON object per line: prompts and replies of language models, tools, "
        "observations, digests of the workspace, rewards. simulation.replication.agents.trajectories replays a line in the Gymnasium environment."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run", help="the run's code, as in its URL")
        parser.add_argument("file", type=Path, help="output file; its folder must exist")
        parser.add_argument(
            "--trees", type=Path, metavar="DIR", help="also write what each step changed, DIR/EPISODE/step-003.patch"
        )
        parser.add_argument(
            "--without-prompts", action="store_true", help="leave out the prompts, which are most of a long file"
        )
        parser.add_argument("--force", action="store_true", help="overwrite existing files")

    def handle(self, *args: Any, **options: Any) -> None:
        run, path, folder = get_run(options["run"]), options["file"], options["trees"]
        if run.kind != "code":
            raise CommandError(
                f"The run {run.code} is not a run of code episodes; `export_episodes` exports episodes of the laboratory",
                returncode=2,
            )
        check_output_file(path, options["force"])
        if folder and folder.exists() and not folder.is_dir():
            raise CommandError(f"--trees: {folder} is no folder", returncode=2)
        if folder and folder.exists() and any(folder.iterdir()) and not options["force"]:
            raise CommandError(f"--trees: {folder} is not empty; --force writes into it", returncode=2)
        if not run.code_episodes.exists():
            raise CommandError(f"The run {run.code} has no code episodes", returncode=2)
        try:
            if folder:
                folder.mkdir(parents=True, exist_ok=True)
            result = write_code_trajectories(run, path, folder, not options["without_prompts"])
        except OSError as error:
            place = f"{path} or {folder}" if folder else path
            raise CommandError(f"{place} cannot be written: {error.strerror}", returncode=2) from error
        except LabError as error:
            raise CommandError(f"{path} was not written: {error}") from error
        self.stdout.write(f"{result.number_written} code episodes written to {path}")
        for reason, count in sorted(result.left_out.items()):
            self.stderr.write(f"{count} left out: {reason}")
