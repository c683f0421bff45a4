"""The run configurations that runs were created with, cached by their hash."""

from simulation.casts import RunConfig, run_config
from simulation.models import Run

# By hash, so that all runs of one configuration share an entry and none can be out of date.
_cached_configs: dict[str, RunConfig] = {}
_MAX_CACHED_CONFIGS = 200


def get_run_config(run: Run, cast: str) -> RunConfig:
    """Return the configuration with which the run was created. That of a rule-based cast is built from the code."""
    if not run.setup_sha256:
        return run_config.get_rule_based_cast(cast).to_run_config()
    if cached := _cached_configs.get(run.setup_sha256):
        return cached
    # One query for both: a configuration that was corrected in between must not be cached under its old hash.
    sha256, data = Run.objects.values_list("setup_sha256", "setup").get(pk=run.pk)
    if len(_cached_configs) > _MAX_CACHED_CONFIGS:
        _cached_configs.clear()
    _cached_configs[sha256] = RunConfig.from_json(data)
    return _cached_configs[sha256]
