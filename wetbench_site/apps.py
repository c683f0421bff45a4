"""The site itself, where it has something to say to Django at the start."""

from django.apps import AppConfig, apps
from django.db.models.signals import post_migrate, pre_migrate


class SiteConfig(AppConfig):
    name = "wetbench_site"
    verbose_name = "Site"

    def ready(self) -> None:
        from wetbench_site import migrating, refusals  # noqa: F401  # its checks register themselves

        told = apps.get_app_config("simulation")  # `migrate` tells apps with models alone, all of them before it begins
        pre_migrate.connect(migrating.limit_waiting, sender=told)
        post_migrate.connect(migrating.as_before, sender=told)
