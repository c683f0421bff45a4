"""python manage.py work"""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from simulation.engine import workers
from simulation.management.arguments import between
from simulation.management.stopping import stop_on_signals
from wetbench_site import starting


class Command(BaseCommand):
    help = "Run queued jobs, episodes and twins in this process. Needs no broker."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--threads", type=between(1, 400), default=4)

    def handle(self, *args: Any, **options: Any) -> None:
        starting.refuse_unfit()
        workers.work(stop_on_signals(), options["threads"])
