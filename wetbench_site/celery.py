"""The Celery app. It carries doorbells only: the database holds all work (docs/architecture.md)."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "wetbench_site.settings")

app = Celery("wetbench")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
