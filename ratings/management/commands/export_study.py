"""python manage.py export_study STUDY DIR|FILE.zip [--blinded]"""

import hashlib
import os
import secrets
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ratings.exchange.archive import making, orders
from ratings.exchange.archive.making import ExportError
from ratings.management.upload import plain
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
            study = lifecycle.find(options["study"])
            orders.refuse(study, blinded)
            if target.suffix.lower() == ".zip" and target.is_dir():
                raise ExportError(
                    f"{plain(str(target))} is a folder: choose another name, or a folder name that does not end in .zip."
                )
            message = (
                self._zipped(study, blinded, target)
                if target.suffix.lower() == ".zip"
                else self._unpacked(study, blinded, target)
            )
        except SealedError as error:
            raise CommandError(f"{error}; until then use --blinded", returncode=2) from error
        except (StudyError, ExportError) as error:
            raise CommandError(str(error), returncode=2) from error
        except OSError as error:
            raise CommandError(f"{plain(str(target))}: {error.strerror or error}", returncode=2) from error
        self.stdout.write(message)

    def _zipped(self, study: Study, blinded: bool, to: Path) -> str:
        """Write the zip file and return a sentence about it."""
        to.parent.mkdir(parents=True, exist_ok=True)
        # Renamed at the end, so that nobody reads half a file. A plain `open` gives it the usual permissions of a
        # new file.
        part_file = to.with_name(f".{to.name}-{secrets.token_hex(8)}")
        try:
            with part_file.open("x+b") as file:
                count = making.zipped(study, blinded, file, self._tell).files
                file.seek(0)
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            orders.log(study, blinded, None, digest)
            os.replace(part_file, to)
        except BaseException:
            part_file.unlink(missing_ok=True)
            raise
        return f"{count} files, {to.stat().st_size:,} bytes in {plain(str(to))}, SHA-256 {digest}"

    def _unpacked(self, study: Study, blinded: bool, to: Path) -> str:
        count = making.unpacked(study, blinded, to, self._tell).files
        digest = hashlib.sha256((to / "SHA256SUMS").read_bytes()).hexdigest()
        orders.log(study, blinded, None, digest, "SHA256SUMS")
        return f"{count} files in {plain(str(to))}, SHA-256 of SHA256SUMS {digest}"

    def _tell(self, step: int, of: int, said: str) -> None:
        if self.stderr.isatty():
            self.stderr.write(f"\r{step}/{of} {said:60.60}", ending="")
