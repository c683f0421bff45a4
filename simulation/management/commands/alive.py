"""python manage.py alive"""

import socket
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.utils import timezone

from simulation.models import Worker
from wetbench_site.safe_output import SafeCommand


class Command(SafeCommand):
    help = "Check that a worker or dispatcher on this host has sent a heartbeat recently. Exit 1 if not."
    requires_system_checks = []  # container health checks run this often

    def handle(self, *args: Any, **options: Any) -> None:
        since = timezone.now() - timedelta(seconds=settings.WORKER_SILENT_SECONDS)
        workers = Worker.objects.filter(owner__startswith=f"{socket.gethostname()}:", seen_at__gt=since)
        if not (kinds := sorted(workers.values_list("kind", flat=True))):
            raise CommandError(
                f"No worker or dispatcher on {socket.gethostname()} has sent a heartbeat since {since:%H:%M:%S} UTC"
            )
        self.stdout.write(f"Running on {socket.gethostname()}: {', '.join(kinds)}")
