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
    help = "Copy the whole database into one file while the site runs, and read it again. The secret key is not in it."
    requires_system_checks = ()  # a site that is out of order is backed up all the same

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("path", metavar="DIR|FILE", type=Path, help="where to; in a directory it gets a name")
        parser.add_argument("--keep-daily", type=between(1, 1000), metavar="N", help="then keep the last of N days")
        parser.add_argument("--keep-weekly", type=between(1, 1000), metavar="N", help="and the last of N weeks")
        parser.add_argument("--no-trial", action="store_true", help="PostgreSQL: do not restore it for a trial")
        parser.add_argument("--json", action="store_true", help="what was made as one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        to, keeps = options["path"], bool(options["keep_daily"] or options["keep_weekly"])
        if keeps and not to.is_dir():
            raise CommandError("--keep-daily and --keep-weekly need a directory that is there", returncode=2)
        tell = (lambda said: None) if options["json"] else self.stdout.write
        try:
            made = making.backup(to, tell, scratch=not options["no_trial"])
        except BackupError as error:
            raise CommandError(f"No backup was made. {error}") from error
        gone = keeping.prune(to, options["keep_daily"] or 0, options["keep_weekly"] or 0) if keeps else []
        self.stdout.write(json.dumps(_json(made, gone), indent=2) if options["json"] else _said(made, gone))


def _json(made: Made, gone: list[Path]) -> dict[str, Any]:
    removed = [str(path) for path in gone]
    return {"file": str(made.file), "checked": made.checked, "removed": removed, **made.told.to_json()}


def _said(made: Made, gone: list[Path]) -> str:
    rows = made.told.held.rows
    lines = [
        f"{made.file}: {made.told.size / 1e6:,.1f} MB, {sum(rows.values()):,} rows in {len(rows)} tables,"
        f" {rows.get('ratings_rating', 0):,} ratings",
        f"checked: {made.checked}",
        *[f"removed {path.name}: older than what is kept" for path in gone],
        "Not in it: the secret key and the keys of providers. Keep them apart, and as safe.",
    ]
    return "\n".join(lines)
