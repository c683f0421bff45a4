"""python manage.py demo"""

import threading
import time
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandParser

from ratings import demonstration
from ratings.models import Study
from ratings.raters import email_messages
from simulation.management import supervisor
from simulation.management.command_options import ProgressLine, integer_between
from wetbench_site.safe_output import SafeCommand

HOST = "127.0.0.1"


class Command(SafeCommand):
    help = "Create a finished example and serve it, together with a worker. A second start keeps the data."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=integer_between(1, 65535), default=8000)
        parser.add_argument("--make-only", action="store_true", help="create the example without serving it")

    def handle(self, *args: Any, **options: Any) -> None:
        supervisor.enable_line_buffering()
        port = options["port"]
        if not options["make_only"]:
            # Checked before the preparation, which takes minutes.
            supervisor.check_port_is_free(HOST, port)
        self.stdout.write("Preparing the database")
        call_command("migrate", verbosity=0)
        started = time.monotonic()
        demonstration.create_demo(settings.FIXTURES_DIR, self.stdout.write, ProgressLine)
        self.stdout.write(f"The example is ready ({time.monotonic() - started:.0f} s): {Study.objects.count()} studies")
        if not options["make_only"]:
            self._serve_demo(port)

    def _serve_demo(self, port: int) -> None:
        def print_welcome(stop: threading.Event) -> None:
            supervisor.wait_for_port(HOST, port, stop)
            if not stop.is_set():
                site = email_messages.make_url_builder(site=f"http://{HOST}:{port}")("")
                self.stdout.write(self._format_welcome(site))

        commands = {
            "web server": supervisor.build_web_server_command(HOST, port),
            "worker": supervisor.build_manage_command("worker", "--quiet"),
        }
        supervisor.supervise_processes(commands, self.stdout.write, print_welcome)

    def _format_welcome(self, site: str) -> str:
        links = demonstration.create_demo_links(settings.FIXTURES_DIR)
        private = f"{site}{links.rater}  (in a private window: it signs a rater in)"
        return (
            f"\nWetBench is running at {site}\n\n"
            f"  Admin and analyst, sign in:      {site}{links.admin}\n"
            f"  A finished study's dashboard:    {site}{links.dashboard}  (after signing in)\n"
            f"  A rater's personal link:         {private if links.rater else 'the study is closed'}\n\n"
            "Ctrl-C stops everything. `make demo` again keeps the data and creates new links."
        )
