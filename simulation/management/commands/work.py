"""python manage.py work"""

from typing import Any

from django.core.management.base import CommandParser

from simulation.engine import workers
from simulation.management.command_options import integer_between
from simulation.management.supervisor import stop_on_signals
from wetbench_site import checks
from wetbench_site.safe_output import SafeCommand


class Command(SafeCommand):
    help = "Run queued jobs, episodes and twins in this process. Needs no broker."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--threads", type=integer_between(1, 400), default=4)

    def handle(self, *args: Any, **options: Any) -> None:
        checks.check_site()
        workers.run_worker(stop_on_signals(), options["threads"])
