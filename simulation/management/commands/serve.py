"""python manage.py serve"""

import threading
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from simulation.management import local_address, supervisor
from simulation.management.command_options import integer_between
from wetbench_site.safe_output import SafeCommand


class Command(SafeCommand):
    help = "Serve the site on this machine, together with a worker."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=integer_between(1, 65535), default=8000)

    def handle(self, *args: Any, **options: Any) -> None:
        supervisor.enable_line_buffering()
        port = options["port"]
        supervisor.check_port_is_free("127.0.0.1", port)
        supervisor.migrate_if_needed(self.stdout.write)
        local_url = local_address.store_address("127.0.0.1", port)

        def announce_address(stop: threading.Event) -> None:
            supervisor.wait_for_port("127.0.0.1", port, stop)
            address = f"{settings.SITE_URL} (listening on {local_url})" if settings.SITE_URL else local_url
            self.stdout.write(f"Serving on {address}. Ctrl-C stops everything.")

        commands = {
            "web server": supervisor.build_web_server_command("127.0.0.1", port),
            **supervisor.build_worker_commands(),
        }
        supervisor.supervise_processes(commands, self.stdout.write, announce_address)
