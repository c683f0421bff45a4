"""python manage.py export_study STUDY DIR|FILE.zip [--blinded]"""

import hashlib
import os
import secrets
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from ratings.exchange.archive import archive_requests, build
from ratings.exchange.archive.build import ExportError
from ratings.management.input_files import add_study_argument, escape_for_terminal, exit_with_2
from ratings.models import Study
from ratings.studies import SealedError, StudyError, lifecycle
from wetbench_site.safe_output import SafeCommand


class Command(SafeCommand):
    help = (
        "Export a study as files (ratings, results, figures, methods, codebook, checksums) to a new folder or a zip file. "
        "Exports are reproducible byte for byte."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_study_argument(parser)
        parser.add_argument("to", metavar="DIR|FILE.zip", help="a new folder, or a file ending in .zip")
        parser.add_argument(
            "--blinded", action="store_true", help="without sources; before unblinding only this export is possible"
        )

    @exit_with_2(StudyError, ExportError)
    def handle(self, *args: Any, **options: Any) -> None:
        target, blinded = Path(options["to"]), options["blinded"]
        name, is_zip = escape_for_terminal(str(target)), target.suffix.lower() == ".zip"
        try:
            study = lifecycle.get_study(options["study"])
            archive_requests.check_may_export(study, blinded)
            if is_zip and target.is_dir():
                advice = "choose another name, or a folder name that does not end in .zip."
                raise ExportError(f"{name} is a folder: {advice}")
            write = self._write_zip if is_zip else self._write_folder
            message = write(study, blinded, target)
        except SealedError as error:
            raise CommandError(f"{error}; until then use --blinded", returncode=2) from error
        except OSError as error:
            raise CommandError(f"{name}: {error.strerror or error}", returncode=2) from error
        self.stdout.write(message)

    def _write_zip(self, study: Study, blinded: bool, target: Path) -> str:
        """Write the zip file and return a sentence about it."""
        target.parent.mkdir(parents=True, exist_ok=True)
        # Renamed at the end, so that nobody reads half a file. A plain `open` gives it the permissions of a new file.
        part_file = target.with_name(f".{target.name}-{secrets.token_hex(8)}")
        try:
            with part_file.open("x+b") as file:
                count = build.build_zip(study, blinded, file, self._report_progress).files
                file.seek(0)
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            archive_requests.log_export(study, blinded, None, digest)
            os.replace(part_file, target)
        except BaseException:
            part_file.unlink(missing_ok=True)
            raise
        return f"{count} files, {target.stat().st_size:,} bytes in {escape_for_terminal(str(target))}, SHA-256 {digest}"

    def _write_folder(self, study: Study, blinded: bool, target: Path) -> str:
        count = build.build_folder(study, blinded, target, self._report_progress).files
        digest = hashlib.sha256((target / "SHA256SUMS").read_bytes()).hexdigest()
        archive_requests.log_export(study, blinded, None, digest, "SHA256SUMS")
        return f"{count} files in {escape_for_terminal(str(target))}, SHA-256 of SHA256SUMS {digest}"

    def _report_progress(self, step: int, total: int, message: str) -> None:
        if self.stderr.isatty():
            self.stderr.rewrite_line(f"{step}/{total} {message:.60}", is_last=False)
