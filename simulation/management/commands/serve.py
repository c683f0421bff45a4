"""python manage.py serve"""

import threading
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandParser

from simulation.management import supervising
from simulation.management.arguments import between


class Command(BaseCommand):
    help = "Serve the site on this machine, together with a worker."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=between(1, 65535), default=8000)

    def handle(self, *args: Any, **options: Any) -> None:
        supervising.speak_line_by_line()
        port = options["port"]
        supervising.refuse_taken_port("127.0.0.1", port)
        call_command("migrate", verbosity=0)

        def ready(stop: threading.Event) -> None:
            supervising.wait_for_port("127.0.0.1", port, stop)
            local_url = f"http://127.0.0.1:{port}"
            address = f"{settings.SITE_URL} (listening on {local_url})" if settings.SITE_URL else local_url
            self.stdout.write(f"Serving on {address}. Ctrl-C stops everything.")

        commands = {
            "web server": supervising.web_server("127.0.0.1", port),
            "worker": supervising.manage("worker", "--quiet"),
        }
        supervising.supervise(commands, self.stdout.write, ready)
