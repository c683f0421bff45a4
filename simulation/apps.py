from django.apps import AppConfig


class SimulationConfig(AppConfig):
    name = "simulation"
    verbose_name = "Laboratory"

    def ready(self) -> None:
        from simulation import monitoring  # models must not be imported before
        from simulation.jobs import jobs
        from wetbench_site.observability import registry

        jobs.declare_kind("masked_run", "Run with hidden steps", "simulation.runs.masked_run_jobs")
        registry.register_metrics("simulation", monitoring.read_laboratory_gauges)
        registry.register_database_check(monitoring.check_worker)
