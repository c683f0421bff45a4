"""The site: settings, the Celery app and the URL configuration."""
