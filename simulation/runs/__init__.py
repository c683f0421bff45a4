"""Create, stop, pause, retry and check runs, and vet twins, all by changing rows.

Nothing here contacts a broker or runs a unit: workers find the rows. `create` creates runs, episodes and twins;
`control` stops and resumes them; `failure_reasons` explains failures; `vetting` decides whether a twin may enter
studies; `benches` turns rows into values of the lab; `protocol_masks` draws the masks of episodes with hidden steps.

May import: simulation.calls, simulation.casts, simulation.checker, simulation.jobs, simulation.lab,
simulation.models, simulation.offline, wetbench_site.
"""

from simulation.runs.create import RunLimits, RunOptions, RunProgress, list_accepted_steps

__all__ = ["RunLimits", "RunOptions", "RunProgress", "list_accepted_steps"]
