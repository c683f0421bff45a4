from django.apps import AppConfig


class SimulationConfig(AppConfig):
    name = "simulation"
    verbose_name = "Laboratory"

    def ready(self) -> None:
        from simulation import metrics, readiness  # models must not be imported before
        from wetbench_site.observability import gauges, readiness_checks

        gauges.register_metrics("simulation", metrics.read_laboratory_gauges)
        readiness_checks.register_database_check(readiness.check_worker)
