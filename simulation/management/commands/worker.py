"""python manage.py worker"""

import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from simulation.management.arguments import between
from simulation.management.supervising import manage, supervise
from wetbench_site import starting


class Command(BaseCommand):
    help = "Run queued work: with CELERY_BROKER_URL by a Celery worker and the dispatcher, else by an embedded worker."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--threads",
            type=between(1, 400),
            default=None,
            help="concurrent units; by default 32 with Celery, 4 without",
        )
        parser.add_argument(
            "--without-dispatcher", action="store_true", help="with a broker: `dispatch` runs elsewhere"
        )
        parser.add_argument("--quiet", action="store_true", help="print nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        starting.refuse_unfit()  # once here, instead of in each of its processes
        threads = str(options["threads"] or (32 if settings.CELERY_BROKER_URL else 4))
        commands = {"worker": manage("work", "--threads", threads)}
        if settings.CELERY_BROKER_URL:
            celery = [
                sys.executable,
                "-m",
                "celery",
                "--quiet",
                "-A",
                "wetbench_site",
                "worker",
                "--loglevel",
                "warning",
            ]
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
            if options["without_dispatcher"]:
                del commands["dispatcher"]
        say = (lambda _: None) if options["quiet"] else self.stdout.write
        say(f"Working with {threads} threads. Ctrl-C stops after the steps under way.")
        supervise(commands, say)
