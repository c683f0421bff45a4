"""The Celery app. Its messages only wake workers: the database holds all work (docs/architecture.md)."""

import os
import sys
from typing import Any

from celery import Celery
from celery.signals import setup_logging, worker_init

from wetbench_site.environment import InvalidConfiguration

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "wetbench_site.settings")

app = Celery("wetbench")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["simulation.engine"])


@setup_logging.connect
def _keep_logging_setup(**_signal: Any) -> None:
    """Do nothing: Django has set up logging by now, and a receiver of this signal prevents Celery's own setup."""


@worker_init.connect
def _check_site_at_start(**_signal: Any) -> None:
    from wetbench_site import checks  # imports models, so only after Django's setup

    try:
        checks.check_site()
    except InvalidConfiguration as error:
        sys.exit(str(error))
