from django.apps import AppConfig

from ratings import jobs


class RatingsConfig(AppConfig):
    name = "ratings"
    verbose_name = "Rating room"

    def ready(self) -> None:
        from ratings import job_access  # models cannot be imported before this
        from simulation import access

        jobs.declare()
        access.seal(job_access.sealed)
        access.door(job_access.open_to)
