"""python manage.py worker"""

import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from simulation.management.supervising import manage, supervise


class Command(BaseCommand):
    help = (
        "Play queued work: with CELERY_BROKER_URL a Celery worker and the dispatcher, without it in this machine alone."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--threads", type=int, default=4)

    def handle(self, *args: Any, **options: Any) -> None:
        threads = str(options["threads"])
        commands = {"worker": manage("work", "--threads", threads)}
        if settings.CELERY_BROKER_URL:
            celery = [sys.executable, "-m", "celery", "-A", "wetbench_site", "worker", "--loglevel", "warning"]
            commands = {
                "worker": [
                    *celery,
                    "--pool",
                    "threads",
                    "--concurrency",
                    threads,
                    "--without-gossip",
                    "--without-mingle",
                ],
                "dispatcher": manage("dispatch"),
            }
        supervise(commands, self.stdout.write)
