"""python manage.py backup"""

import json
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from simulation.management.command_options import integer_between
from wetbench_site.database_copies.extra_databases import BackupError
from wetbench_site.maintenance.backup import creation
from wetbench_site.maintenance.backup.creation import CreatedBackup
from wetbench_site.safe_output import SafeCommand


class Command(SafeCommand):
    help = "Back up the whole database to one file while the site runs, and check the file. The secret key is not included."
    requires_system_checks = ()  # a site with invalid settings can be backed up as well

    def add_arguments(self, parser: CommandParser) -> None:
        path_help = "target file, or a directory in which the name is generated"
        parser.add_argument("path", metavar="DIR|FILE", type=Path, help=path_help)
        for option, text in (
            ("--keep-daily", "then keep the last backup of each of the latest N days"),
            ("--keep-weekly", "and the last one of each of the latest N weeks"),
        ):
            parser.add_argument(option, type=integer_between(1, 1000), metavar="N", help=text)
        parser.add_argument("--no-trial", action="store_true", help="PostgreSQL: skip the trial restore")
        parser.add_argument("--json", action="store_true", help="print the result as one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        target, prunes = options["path"], bool(options["keep_daily"] or options["keep_weekly"])
        if prunes and not target.is_dir():
            raise CommandError("--keep-daily and --keep-weekly need an existing directory", returncode=2)
        # Progress would make the output invalid JSON.
        report = (lambda message: None) if options["json"] else self.stdout.write
        try:
            created = creation.create_backup(target, report, scratch=not options["no_trial"])
        except BackupError as error:
            raise CommandError(f"No backup was created. {error}") from error
        daily, weekly = options["keep_daily"] or 0, options["keep_weekly"] or 0
        removed = creation.prune_backups(target, daily, weekly) if prunes else []
        if not options["json"]:
            self.stdout.write(_describe_result(created, removed))
            return
        facts = {"file": str(created.file), "checked": created.checked, "removed": list(map(str, removed))}
        self.stdout.write(json.dumps({**facts, **created.manifest.to_dict()}, indent=2))


def _describe_result(created: CreatedBackup, removed: list[Path]) -> str:
    rows = created.manifest.held.rows
    lines = [
        f"{created.file}: {created.manifest.size / 1e6:,.1f} MB, {sum(rows.values()):,} rows in {len(rows)} tables,"
        f" {rows.get('ratings_rating', 0):,} ratings",
        f"checked: {created.checked}",
        *[f"removed {path.name}: expired" for path in removed],
        "Not included: the secret key and the keys of providers. Store them separately, and as safely.",
    ]
    return "\n".join(lines)
