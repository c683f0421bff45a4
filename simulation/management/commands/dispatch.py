"""python manage.py dispatch"""

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from simulation.engine import notifications, tasks
from simulation.management.supervisor import stop_on_signals
from wetbench_site import checks
from wetbench_site.safe_output import SafeCommand


class Command(SafeCommand):
    help = "Send messages to Celery workers, every second, for rows that they can run."

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.CELERY_BROKER_URL:
            raise CommandError(
                "CELERY_BROKER_URL is not set. Without a broker, run `python manage.py work`.", returncode=2
            )
        checks.check_site()
        notifications.run_dispatcher(stop_on_signals(), tasks.send_message, tasks.count_queued_messages)
