"""python manage.py runserver"""

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from whitenoise.runserver_nostatic.management.commands.runserver import Command as RunServer

from wetbench_site import loopback


class Command(RunServer):  # type: ignore[misc]  # whitenoise is not typed
    help = "Django's own server, for those who develop WetBench. On a site of this machine it binds nothing else."

    def run(self, **options: Any) -> None:
        if not settings.PRODUCTION and (why := loopback.refusal([(self.addr, self.port)])):
            raise CommandError(why)
        super().run(**options)
