from django.apps import AppConfig


class SimulationConfig(AppConfig):
    name = "simulation"
    verbose_name = "Laboratory"

    def ready(self) -> None:
        from simulation import monitoring  # models must not be imported before
        from wetbench_site.observability import registry

        registry.register_metrics("simulation", monitoring.read_laboratory_gauges)
        registry.register_database_check(monitoring.check_worker)
