"""python manage.py restore"""

import signal
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from wetbench_site.database_copies.faults import BackupError
from wetbench_site.maintenance.backup import restoring
from wetbench_site.maintenance.backup.restoring import Restored
from wetbench_site.management.commands.verify import lines
from wetbench_site.observability.audit_log import security_event


class Command(BaseCommand):
    help = "Put a backup in the place of the database: compared with its manifest, migrated and verified. All sign in anew."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "file", metavar="FILE", type=Path, nargs="?", help="made by `backup`, its manifest beside it"
        )
        parser.add_argument(
            "--undo", action="store_true", help="PostgreSQL: put back what a broken-off restore set aside"
        )
        parser.add_argument("--yes", action="store_true", help="do not ask")
        parser.add_argument("--replace", action="store_true", help="back up the data that is there and replace it")
        parser.add_argument("--force", action="store_true", help="even though workers or connections seem alive")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["undo"] == bool(options["file"]):
            raise CommandError("Name the backup's file, or say --undo", returncode=2)
        if not (options["yes"] or self._agreed(options["file"])):
            raise CommandError("Nothing was restored. Say --yes where nobody can be asked", returncode=2)
        usual = signal.signal(signal.SIGTERM, lambda *told: sys.exit(143))  # what was set aside is put back first
        try:
            self._restore(options["file"], {"replace": options["replace"], "force": options["force"]})
        except BackupError as error:
            raise CommandError(f"Nothing was restored. {error}") from error
        finally:
            signal.signal(signal.SIGTERM, usual)

    def _restore(self, file: Path | None, how: dict[str, bool]) -> None:
        if file is None:
            before = restoring.undo(self.stdout.write, **how)
            self.stdout.write("What was there before the restore that was broken off stands in its place again.")
            self.stdout.write(f"What stood here meanwhile: {before}" if before else "Nothing was lost.")
            return
        restored = restoring.restore(file, self.stdout.write, **how)
        security_event("database restored", None, made_at=restored.told.made_at)
        self.stdout.write("\n".join(_said(restored)))
        if any(one.findings for one in restored.looked):
            sys.exit(1)

    def _agreed(self, file: Path | None) -> bool:
        what = f"Restore {file} into" if file else "Put back what a restore set aside in"
        return sys.stdin.isatty() and input(f"{what} the database of this site? (yes/no) ") == "yes"


def _said(restored: Restored) -> list[str]:
    told, looked = restored.told, restored.looked
    rows = told.held.rows
    return [
        f"Restored as it was on {told.made_at}: {sum(rows.values()):,} rows, {rows.get('ratings_rating', 0):,} ratings;"
        " rows and ratings are those of the manifest.",
        *[f"Migrated from an older version: {', '.join(restored.migrated)}"] * bool(restored.migrated),
        *[f"What stood here before: {restored.before}"] * (restored.before is not None),
        "Everybody has to sign in again; what workers held is free. All sign-in links, invitations and API tokens are"
        " withdrawn: make new ones. Accounts, roles and passwords are those of then.",
        *(lines(looked) if any(one.findings for one in looked) else ["verify: nothing found"]),
    ]
