"""python manage.py alive"""

import socket
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from simulation.models import Worker


class Command(BaseCommand):
    help = "Whether a worker or dispatcher on this host has said lately that it is at work; 1 if none has."
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        since = timezone.now() - timedelta(seconds=settings.WORKER_SILENT_SECONDS)
        here = Worker.objects.filter(owner__startswith=f"{socket.gethostname()}:", seen_at__gt=since)
        if not (kinds := sorted(here.values_list("kind", flat=True))):
            raise CommandError(
                f"Nothing on {socket.gethostname()} has said that it is at work since {since:%H:%M:%S} UTC"
            )
        self.stdout.write(f"At work on {socket.gethostname()}: {', '.join(kinds)}")
