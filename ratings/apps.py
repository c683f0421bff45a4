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
        from ratings.accounts import login_throttling, sessions
        from ratings.paper import checks
        from ratings.raters import recall
        from ratings.studies import job_access, rights
        from simulation.engine import cleanup
        from simulation.web import access
        from wetbench_site.observability import gauges

        jobs.register_job_kinds()
        gauges.register_metrics("ratings", metrics.read_rating_gauges)
        register(checks.check_paper_values, "paper")
        access.register_sealed_check(job_access.is_sealed)
        access.register_page_check(job_access.find_visible_jobs)
        cleanup.register_cleanup(login_throttling.delete_expired)
        cleanup.register_cleanup(sessions.SessionStore.clear_expired)
        cleanup.register_cleanup(recall.recall_raters)
        cleanup.register_cleanup(recall.announce_new_items)
        user_logged_in.connect(sessions.on_sign_in, dispatch_uid="session begun")
        post_save.connect(rights.record_rights, sender=User, dispatch_uid="rights noted")
