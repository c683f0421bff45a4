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
        "Write a study as files: ratings, results, figures, methods, codebook and the digests of all of it, into a new "
        "folder or one zip. The same study gives the same bytes."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("study", metavar="STUDY", help="slug or code")
        parser.add_argument("to", metavar="DIR|FILE.zip", help="a new folder, or a file ending in .zip")
        parser.add_argument("--blinded", action="store_true", help="nothing by source; the only one before unblinding")

    def handle(self, *args: Any, **options: Any) -> None:
        to, blinded = Path(options["to"]), options["blinded"]
        try:
            study = lifecycle.find(options["study"])
            orders.refuse(study, blinded)
            if to.suffix.lower() == ".zip" and to.is_dir():
                raise ExportError(f"{plain(str(to))} is a folder: name a file, or a folder that does not end in .zip.")
            said = (
                self._zipped(study, blinded, to) if to.suffix.lower() == ".zip" else self._unpacked(study, blinded, to)
            )
        except SealedError as error:
            raise CommandError(f"{error}; until then use --blinded", returncode=2) from error
        except (StudyError, ExportError) as error:
            raise CommandError(str(error), returncode=2) from error
        except OSError as error:
            raise CommandError(f"{plain(str(to))}: {error.strerror or error}", returncode=2) from error
        self.stdout.write(said)

    def _zipped(self, study: Study, blinded: bool, to: Path) -> str:
        """Beside its place first: whoever reads the file never has half of it. Its rights are those of any new file."""
        to.parent.mkdir(parents=True, exist_ok=True)
        near = to.with_name(f".{to.name}-{secrets.token_hex(8)}")
        try:
            with near.open("x+b") as file:
                count = making.zipped(study, blinded, file, self._tell).files
                file.seek(0)
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            orders.log(study, blinded, None, digest)
            os.replace(near, to)
        except BaseException:
            near.unlink(missing_ok=True)
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
