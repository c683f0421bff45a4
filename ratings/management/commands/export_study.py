"""python manage.py export_study STUDY DIR|FILE.zip [--blinded]"""

import hashlib
import os
import secrets
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ratings.exchange.archive import archive_requests, build
from ratings.exchange.archive.build import ExportError
from ratings.management.input_files import escape_for_terminal
from ratings.models import Study
from ratings.studies import SealedError, StudyError, lifecycle


class Command(BaseCommand):
    help = (
        "Export a study as files (ratings, results, figures, methods, codebook, checksums) to a new folder or a zip file. "
        "Exports are reproducible byte for byte."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("study", metavar="STUDY", help="slug or code")
        parser.add_argument("to", metavar="DIR|FILE.zip", help="a new folder, or a file ending in .zip")
        parser.add_argument(
            "--blinded", action="store_true", help="without sources; before unblinding only this export is possible"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        target, blinded = Path(options["to"]), options["blinded"]
        try:
            study = lifecycle.get_study(options["study"])
            archive_requests.check_may_export(study, blinded)
            if target.suffix.lower() == ".zip" and target.is_dir():
                raise ExportError(
                    f"{escape_for_terminal(str(target))} is a folder: choose another name, or a folder name that does not end in .zip."
                )
            message = (
                self._write_zip(study, blinded, target)
                if target.suffix.lower() == ".zip"
                else self._write_folder(study, blinded, target)
            )
        except SealedError as error:
            raise CommandError(f"{error}; until then use --blinded", returncode=2) from error
        except (StudyError, ExportError) as error:
            raise CommandError(str(error), returncode=2) from error
        except OSError as error:
            raise CommandError(
                f"{escape_for_terminal(str(target))}: {error.strerror or error}", returncode=2
            ) from error
        self.stdout.write(message)

    def _write_zip(self, study: Study, blinded: bool, target: Path) -> str:
        """Write the zip file and return a sentence about it."""
        target.parent.mkdir(parents=True, exist_ok=True)
        # Renamed at the end, so that nobody reads half a file. A plain `open` gives it the usual permissions of a
        # new file.
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
            self.stderr.write(f"\r{step}/{total} {message:60.60}", ending="")
