"""The site: settings, the Celery app and the URL configuration."""

from wetbench_site.celery import app as celery_app

__all__ = ["celery_app"]
