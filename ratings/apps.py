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
        from ratings.paper import plan
        from ratings.raters import practice
        from ratings.studies import access as job_access
        from ratings.studies import preparations, readable_elsewhere
        from simulation.engine import workers
        from simulation.web import access
        from wetbench_site.observability import registry

        jobs.register_job_kinds()
        registry.register_metrics("ratings", metrics.read_rating_gauges)
        register(plan.check_paper_values, "paper")
        access.SEALED_CHECKS.append(job_access.is_sealed)
        access.PAGE_CHECKS.append(job_access.find_visible_jobs)
        workers.register_cleanup(login_throttling.delete_expired)
        workers.register_cleanup(sessions.SessionStore.clear_expired)
        workers.register_cleanup(practice.recall_raters)
        workers.register_cleanup(practice.announce_new_items)
        workers.register_cleanup(preparations.delete_abandoned)
        user_logged_in.connect(sessions.on_sign_in, dispatch_uid="session begun")
        post_save.connect(readable_elsewhere.record_rights, sender=User, dispatch_uid="rights noted")
