"""python manage.py restore"""

import signal
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from wetbench_site.database_copies.extra_databases import BackupError
from wetbench_site.maintenance.backup import restoration
from wetbench_site.maintenance.backup.restoration import Restored
from wetbench_site.management.commands.verify import format_results
from wetbench_site.observability.logs import log_security_event
from wetbench_site.safe_output import SafeCommand


class Command(SafeCommand):
    help = "Replace the database with a backup, which is compared with its manifest, migrated and verified. Everybody has to sign in again."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        file_help = "created by `backup`, with its manifest next to it"
        parser.add_argument("file", metavar="FILE", type=Path, nargs="?", help=file_help)
        for option, text in (
            ("--undo", "PostgreSQL: put back the data that an interrupted restore set aside"),
            ("--yes", "do not ask"),
            ("--replace", "back up the existing data and replace it"),
            ("--force", "continue although workers or connections seem to be active"),
        ):
            parser.add_argument(option, action="store_true", help=text)

    def handle(self, *args: Any, **options: Any) -> None:
        if options["undo"] == bool(options["file"]):
            raise CommandError("Give the file of the backup, or use --undo", returncode=2)
        if not (options["yes"] or self._is_confirmed(options["file"])):
            raise CommandError("Nothing was restored. Use --yes to skip the question", returncode=2)
        # An exception, so that the data that was set aside is put back first.
        usual_handler = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        try:
            self._restore_or_undo(options["file"], {"replace": options["replace"], "force": options["force"]})
        except BackupError as error:
            raise CommandError(f"Nothing was restored. {error}") from error
        finally:
            signal.signal(signal.SIGTERM, usual_handler)

    def _restore_or_undo(self, file: Path | None, options: dict[str, bool]) -> None:
        if file is None:
            replaced_backup = restoration.undo_restore(self.stdout.write, **options)
            self.stdout.write("The data from before the interrupted restore is back in its place.")
            replaced = f"Backup of the data that was replaced: {replaced_backup}"
            self.stdout.write(replaced if replaced_backup else "Nothing was lost.")
            return
        restored = restoration.restore_backup(file, self.stdout.write, **options)
        log_security_event("database restored", None, made_at=restored.manifest.made_at)
        self.stdout.write("\n".join(_describe_result(restored)))
        # The restore itself succeeded, but scripts should notice the violations.
        if any(result.findings for result in restored.check_results):
            sys.exit(1)

    def _is_confirmed(self, file: Path | None) -> bool:
        action = f"Restore {file} into" if file else "Put back the data that a restore set aside in"
        return sys.stdin.isatty() and input(f"{action} the database of this site? (yes/no) ") == "yes"


def _describe_result(restored: Restored) -> list[str]:
    rows, results = restored.manifest.held.rows, restored.check_results
    return [
        f"Restored the state of {restored.manifest.made_at}: {sum(rows.values()):,} rows, {rows.get('ratings_rating', 0):,} ratings;"
        " rows and ratings match the manifest.",
        *[f"Migrated from an older version: {', '.join(restored.migrated)}"] * bool(restored.migrated),
        *[f"Backup of the replaced data: {restored.replaced_backup}"] * (restored.replaced_backup is not None),
        "Everybody has to sign in again, and leases of workers are cleared. All sign-in links, invitations and API tokens"
        " are revoked: create new ones. Accounts, roles and passwords are those of the backup.",
        *(format_results(results) if any(one.findings for one in results) else ["verify: nothing found"]),
    ]
