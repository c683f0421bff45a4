"""python manage.py demo"""

import threading
import time
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandParser

from ratings import demonstration
from ratings.models import Study
from ratings.raters import mailing
from simulation.management import supervising
from simulation.management.arguments import between
from simulation.management.progress import ProgressLine

HOST = "127.0.0.1"


class Command(BaseCommand):
    help = "Create a finished example and serve it, together with a worker. A second start keeps the data."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=between(1, 65535), default=8000)
        parser.add_argument("--make-only", action="store_true", help="create the example without serving it")

    def handle(self, *args: Any, **options: Any) -> None:
        supervising.speak_line_by_line()
        port = options["port"]
        if not options["make_only"]:
            # Before the minutes of preparation, not after them.
            supervising.refuse_taken_port(HOST, port)
        self.stdout.write("Preparing the database")
        call_command("migrate", verbosity=0)
        started = time.monotonic()
        demonstration.make(settings.FIXTURES_DIR, self.stdout.write, ProgressLine)
        self.stdout.write(f"The example is ready ({time.monotonic() - started:.0f} s): {Study.objects.count()} studies")
        if not options["make_only"]:
            self._serve(port)

    def _serve(self, port: int) -> None:
        def ready(stop: threading.Event) -> None:
            supervising.wait_for_port(HOST, port, stop)
            if not stop.is_set():
                self.stdout.write(self._welcome(mailing.address_of(site=f"http://{HOST}:{port}")("")))

        commands = {"web server": supervising.web_server(HOST, port), "worker": supervising.manage("worker", "--quiet")}
        supervising.supervise(commands, self.stdout.write, ready)

    def _welcome(self, site: str) -> str:
        links = demonstration.ways_in(settings.FIXTURES_DIR)
        rater_link = (
            f"{site}{links.rater}  (in a private window: it signs a rater in)" if links.rater else "the study is closed"
        )
        return "\n".join(
            (
                "",
                f"WetBench is running at {site}",
                "",
                f"  Admin and analyst, sign in:      {site}{links.admin}",
                f"  A finished study's dashboard:    {site}{links.dashboard}  (after signing in)",
                f"  A rater's personal link:         {rater_link}",
                "",
                "Ctrl-C stops everything. `make demo` again keeps the data and creates new links.",
            )
        )
