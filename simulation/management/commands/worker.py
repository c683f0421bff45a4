"""python manage.py worker"""

from typing import Any

from django.core.management.base import CommandParser

from simulation.management.command_options import integer_between
from simulation.management.supervisor import build_worker_commands, supervise_processes
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
        checks.check_site()  # before anything starts
        commands = build_worker_commands(options["threads"], not options["without_dispatcher"])
        say = (lambda _: None) if options["quiet"] else self.stdout.write
        say(f"Working with {commands['worker'][-1]} threads. Ctrl-C stops after the steps under way.")
        supervise_processes(commands, say)
