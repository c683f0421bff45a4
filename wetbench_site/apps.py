"""The Django app of the site: registers its system checks and the time limits of `migrate`."""

from django.apps import AppConfig, apps
from django.db.models.signals import post_migrate, pre_migrate


class SiteConfig(AppConfig):
    name = "wetbench_site"
    verbose_name = "Site"

    def ready(self) -> None:
        from wetbench_site import checks, database  # noqa: F401  # the import registers its checks

        # `migrate` sends these signals only for apps with models, and all pre_migrate signals before its first change.
        sender = apps.get_app_config("simulation")
        pre_migrate.connect(database.set_migration_limits, sender=sender)
        post_migrate.connect(database.reset_limits, sender=sender)
