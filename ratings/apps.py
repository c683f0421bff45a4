"""The Django app of studies and ratings: registers its jobs, metrics, checks and signal handlers."""

from django.apps import AppConfig


class RatingsConfig(AppConfig):
    name = "ratings"
    verbose_name = "Rating room"

    def ready(self) -> None:
        # Imported here, because models can be imported only after Django has loaded all apps.
        from django.contrib.auth.models import User
        from django.contrib.auth.signals import user_logged_in
        from django.core.checks import register
        from django.db.models.signals import post_save

        from ratings import jobs, metrics
        from ratings.accounts import sessions, throttling
        from ratings.paper import checks
        from ratings.raters import recalling
        from ratings.studies import job_access, rights
        from simulation.engine import tidying
        from simulation.web import access
        from wetbench_site.observability import gauges

        jobs.declare()
        gauges.register_metrics("ratings", metrics.read_rating_gauges)
        register(checks.check_paper_values, "paper")
        access.seal(job_access.sealed)
        access.door(job_access.open_to)
        tidying.also(throttling.purge)
        tidying.also(sessions.SessionStore.clear_expired)
        tidying.also(recalling.recall_raters)
        tidying.also(recalling.tell_of_new_items)
        user_logged_in.connect(sessions.begun, dispatch_uid="session begun")
        post_save.connect(rights.note_rights, sender=User, dispatch_uid="rights noted")
