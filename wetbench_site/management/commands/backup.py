"""python manage.py backup"""

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from simulation.management.arguments import between
from wetbench_site.database_copies.faults import BackupError
from wetbench_site.maintenance.backup import keeping, making
from wetbench_site.maintenance.backup.making import Made


class Command(BaseCommand):
    help = "Back up the whole database to one file while the site runs, and check the file. The secret key is not included."
    requires_system_checks = ()  # a site with invalid settings can be backed up as well

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "path", metavar="DIR|FILE", type=Path, help="target file, or a directory in which the name is generated"
        )
        parser.add_argument(
            "--keep-daily",
            type=between(1, 1000),
            metavar="N",
            help="then keep the last backup of each of the latest N days",
        )
        parser.add_argument(
            "--keep-weekly", type=between(1, 1000), metavar="N", help="and the last one of each of the latest N weeks"
        )
        parser.add_argument("--no-trial", action="store_true", help="PostgreSQL: skip the trial restore")
        parser.add_argument("--json", action="store_true", help="print the result as one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        target, prunes = options["path"], bool(options["keep_daily"] or options["keep_weekly"])
        if prunes and not target.is_dir():
            raise CommandError("--keep-daily and --keep-weekly need an existing directory", returncode=2)
        # Progress would make the output invalid JSON.
        report = (lambda message: None) if options["json"] else self.stdout.write
        try:
            created = making.backup(target, report, scratch=not options["no_trial"])
        except BackupError as error:
            raise CommandError(f"No backup was created. {error}") from error
        removed = keeping.prune(target, options["keep_daily"] or 0, options["keep_weekly"] or 0) if prunes else []
        self.stdout.write(json.dumps(_json(created, removed), indent=2) if options["json"] else _said(created, removed))


def _json(made: Made, gone: list[Path]) -> dict[str, Any]:
    removed = [str(path) for path in gone]
    return {"file": str(made.file), "checked": made.checked, "removed": removed, **made.told.to_json()}


def _said(made: Made, gone: list[Path]) -> str:
    rows = made.told.held.rows
    lines = [
        f"{made.file}: {made.told.size / 1e6:,.1f} MB, {sum(rows.values()):,} rows in {len(rows)} tables,"
        f" {rows.get('ratings_rating', 0):,} ratings",
        f"checked: {made.checked}",
        *[f"removed {path.name}: expired" for path in gone],
        "Not included: the secret key and the keys of providers. Store them separately, and as safely.",
    ]
    return "\n".join(lines)
