"""python manage.py worker"""

import sys
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from simulation.management.command_options import integer_between
from simulation.management.supervisor import build_manage_command, supervise_processes
from wetbench_site import checks
from wetbench_site.safe_output import SafeCommand


class Command(SafeCommand):
    help = "Run queued work: with CELERY_BROKER_URL by a Celery worker and the dispatcher, else by an embedded worker."

    def add_arguments(self, parser: CommandParser) -> None:
        threads_help = "concurrent units; by default 32 with Celery, 4 without"
        dispatcher_help = "with a broker: `dispatch` runs elsewhere"
        parser.add_argument("--threads", type=integer_between(1, 400), default=None, help=threads_help)
        parser.add_argument("--without-dispatcher", action="store_true", help=dispatcher_help)
        parser.add_argument("--quiet", action="store_true", help="print nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        checks.check_site()  # once here, instead of in each of its processes
        threads = str(options["threads"] or (32 if settings.CELERY_BROKER_URL else 4))
        commands = {"worker": build_manage_command("work", "--threads", threads)}
        if settings.CELERY_BROKER_URL:
            celery = "-m celery --quiet -A wetbench_site worker --loglevel warning --pool threads --concurrency"
            commands["worker"] = [sys.executable, *celery.split(), threads, "--without-gossip", "--without-mingle"]
            if not options["without_dispatcher"]:
                commands["dispatcher"] = build_manage_command("dispatch")
        say = (lambda _: None) if options["quiet"] else self.stdout.write
        say(f"Working with {threads} threads. Ctrl-C stops after the steps under way.")
        supervise_processes(commands, say)
