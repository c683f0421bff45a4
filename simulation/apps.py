from django.apps import AppConfig


class SimulationConfig(AppConfig):
    name = "simulation"
    verbose_name = "Laboratory"

    def ready(self) -> None:
        from simulation import metrics  # models must not be imported before
        from wetbench_site import gauges

        gauges.register_metrics("simulation", metrics.read_laboratory_gauges)
